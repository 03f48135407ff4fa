"""The Policy port: what may be read, written, filed and sent. Default deny."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amem_core.domain.decisions import Decision
    from amem_core.domain.labels import Label
    from amem_core.domain.queries import ReadFilter


class PolicyCapabilities(NamedTuple):
    """What a policy engine can promise beyond the base contract."""

    explain: bool = False


class Policy(Protocol):
    """Decides. It denies on everything that it does not know: an action, a time-out, an engine's failure.

    ``input`` is JSON: ``{"session": {...}, "resource": {...}}``. The session is
    ``{"author", "kind": "owner" | "agent", "destination", "domains": [..] | null, "label", "ceiling"}``.
    Actions of this version and their resource:

    ==============  =====================================================================
    ``session``     ``{}``: open a session. Obligations: ``ceiling`` (a label)
    ``read``        ``{"id", "domain", "label", "status", "type"}``
    ``write``       ``{"domain", "type", "label": asked or null, "replaces": {"author", "tier", "label"} | null}``.
                    Obligations: ``label``, the label that the entry takes
    ``file_task``   ``{"domain", "label": asked or null, "origin"}``. Obligations: ``label``
    ``claim``, ``heartbeat``, ``complete``, ``release``   ``{"domain", "label"}``
    ``export``      ``{"domain", "max_label"}``. Obligations: ``max_label``
    ``import``      ``{"domain", "highest_label"}``
    ``reindex``, ``erase``   ``{"domain"}`` and, for erase, ``id``, ``reason``
    ==============  =====================================================================

    Callable from any thread.
    """

    @property
    def version(self) -> str:
        """Identifies the policy's text and the grants together."""
        ...

    @property
    def capabilities(self) -> PolicyCapabilities:
        """What this engine can promise, as configured."""
        ...

    def decide(self, action: str, input: Mapping[str, Any]) -> Decision:
        """Decide one action. Never raises for a refusal or for its engine's failure: it denies and says why."""
        ...

    def read_filter(self, session: Mapping[str, Any]) -> ReadFilter:
        """Return what the session may read, once per session; nothing at all when the policy fails."""
        ...

    def domains(self) -> list[str]:
        """Return the domains that the grants know, sorted."""
        ...

    def close(self) -> None:
        """Release what is held. Idempotent."""
        ...


class SupportsInit(Protocol):
    """What a policy offers beside the port when its grants live in the root, so that ``init`` can add to them."""

    def init_domain(self, domain: str, label: Label | None) -> bool:
        """Grant the owner a new domain whose entries are ``label`` by default, ``internal`` for None.

        Returns False, and changes nothing, when the grants know the domain already. The next decision
        rests on the new grants.

        Raises:
            ConfigError: the grants are broken.
            UnavailableError: they cannot be written.
        """
        ...
