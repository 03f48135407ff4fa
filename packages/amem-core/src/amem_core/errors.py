"""The errors that amem raises, one closed tree.

Every error names the thing, the rule and the remedy: the message says what was refused
and by which rule, ``hint`` says what to do next. ``code`` is stable and is what other
programs branch on. Drivers' own exceptions never cross a port: an adapter raises one of
these from the driver's.
"""

from __future__ import annotations

from typing import ClassVar


class AmemError(Exception):
    """The root of all errors of amem.

    Attributes:
        code: a stable slug, such as ``not-found``.
        hint: what to do next, one sentence, or an empty string.
        retryable: whether the same call may succeed later, unchanged.
        context: names and figures for logs; never a secret, never an entry's text.
    """

    code: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", **context: object) -> None:
        super().__init__(message)
        self.hint = hint
        self.context = context

    def __str__(self) -> str:
        """Return the message alone; the hint is shown beside it by whoever prints."""
        return str(self.args[0]) if self.args else ""


class ConfigError(AmemError, ValueError):
    """The root's configuration is wrong: the message names the file and the key."""

    code = "config"


class PluginError(AmemError):
    """A backend or plugin that the configuration names cannot be used."""

    code = "plugin"


class PluginNotFoundError(PluginError):
    """No installed distribution provides the backend."""

    code = "plugin-not-found"


class PluginConflictError(PluginError):
    """Two installed distributions provide the same backend."""

    code = "plugin-conflict"


class PluginLoadError(PluginError):
    """The distribution is there but its module, or the driver that it needs, does not import."""

    code = "plugin-load"


class PluginIncompatibleError(PluginError):
    """The plugin was written against a port API that this core does not serve."""

    code = "plugin-incompatible"


class InvalidError(AmemError, ValueError):
    """What the caller gave breaks a rule; nothing was changed."""

    code = "invalid"


class NotFoundError(AmemError, LookupError):
    """There is no such thing, or it is not for this session to know that there is."""

    code = "not-found"


class ConflictError(AmemError):
    """A precondition does not hold (a version, a digest, a lease): read again, then decide."""

    code = "conflict"


class DeniedError(AmemError, PermissionError):
    """The policy refused. ``rules`` holds the names of the rules that it rests on."""

    code = "denied"

    def __init__(self, message: str, *, hint: str = "", rules: tuple[str, ...] = (), **context: object) -> None:
        super().__init__(message, hint=hint, **context)
        self.rules = rules


class UnsupportedError(AmemError):
    """The backend declares that it lacks this capability."""

    code = "unsupported"


class FormatError(AmemError):
    """Durable bytes do not have the form that the format demands."""

    code = "format"


class UnknownFormatError(FormatError):
    """Written by a newer amem; it is left as it is."""

    code = "unknown-format"


class CorruptionError(FormatError):
    """Durable bytes contradict their own digest or order. Nothing is deleted."""

    code = "corruption"


class UnavailableError(AmemError):
    """A backend could not be reached or could not serve now. This is never an empty answer."""

    code = "unavailable"
    retryable = True


class InternalError(AmemError):
    """A fault of amem itself."""

    code = "internal"
