"""The settings of the ledgers; no driver, so that a configuration is checked cheaply."""

from __future__ import annotations

from dataclasses import dataclass

from amem_core.errors import ConfigError

_SYNCHRONOUS = ("normal", "full")


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSettings:
    """The table ``[ledger.sqlite]``.

    Attributes:
        synchronous: ``normal`` (the log is the durable truth, see ``amem_ledger.sqlite``) or ``full``,
            which makes each change durable here as well and costs an fsync for each.
        wait: for how many seconds a change waits for its turn before the ledger is unavailable.
    """

    synchronous: str = "normal"
    wait: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what SQLite would take without a word.

        Raises:
            ConfigError: a value is none of those allowed.
        """
        if self.synchronous not in _SYNCHRONOUS:
            message = f"ledger.sqlite.synchronous cannot be {self.synchronous!r}"
            raise ConfigError(message, hint=f"one of: {', '.join(_SYNCHRONOUS)}")
        if not 0 < self.wait <= 86_400:  # noqa: PLR2004  (a day)
            message = f"ledger.sqlite.wait cannot be {self.wait!r}"
            raise ConfigError(message, hint="seconds, above 0 and up to a day; 30 is usual")
