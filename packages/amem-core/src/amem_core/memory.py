"""``Memory``: one root, opened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from amem_core.domain.names import check_author, check_domain
from amem_core.runtime import Runtime
from amem_core.session import Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from amem_core.domain.labels import Label
    from amem_core.domain.results import Check
    from amem_core.ports.system import Clock, Ids


class Memory:
    """One deployment: its record, ledger, log, index and policy, opened on first use.

    Callable from any thread. Close it, or use it as a context manager.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    @classmethod
    def open(
        cls,
        root: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Memory:
        """Open the memory whose root is ``root``.

        ``environ`` is where secret references such as ``{ env = "AMEM_LEDGER_DSN" }`` are looked up;
        the process's own environment is not read.

        Raises:
            NotFoundError: ``root`` is no root: it has no ``grants.toml``.
            ConfigError: ``amem.toml`` or ``grants.toml`` is wrong.
            PluginError: a backend that the configuration names cannot be used.
        """
        return cls(Runtime.open(os.fspath(root), clock=clock, ids=ids, environ=environ or {}))

    @classmethod
    def init(cls, root: str | os.PathLike[str], *, domain: str, label: Label | None = None) -> bool:
        """Make ``root`` a root if it is none, and add ``domain`` to its grants; return False if it was there.

        ``label`` is the domain's default label, ``internal`` unless given.

        Raises:
            InvalidError: ``domain`` cannot name a domain.
            UnavailableError: the directory cannot be written.
        """
        from amem_core.services.roots import init

        return init(os.fspath(root), domain=check_domain(domain), label=label)

    @property
    def root(self) -> str:
        """The root's absolute path."""
        return self.runtime.root

    def domains(self) -> list[str]:
        """Return the domains that the grants know, sorted."""
        return self.runtime.policy.domains()

    def session(
        self, *, author: str | None = None, destination: str | None = None, domains: Sequence[str] | None = None
    ) -> Session:
        """Open a session.

        ``author`` is ``owner`` for a person at the command line, otherwise ``session:<id>``,
        ``tap:<name>`` or ``librarian``; left out, it is a new ``session:<id>``. ``destination`` names
        where what it reads goes, which sets its ceiling: an agent must name one that the grants know
        and gets ``model`` when it names none. ``domains`` narrows it.

        Raises:
            DeniedError: the policy refuses the session.
        """
        if author is None:
            author = "session:" + self.runtime.ids.new("", self.runtime.clock.now())
        check_author(author)
        if destination is None and author != "owner":
            destination = "model"
        narrowed = None if domains is None else tuple(check_domain(name) for name in domains)
        return Session(self.runtime, author=author, destination=destination, domains=narrowed)

    def doctor(self) -> list[Check]:
        """Check configuration, backends, record, index, ledger and log, and what enabled plugins check; change nothing.

        Raises:
            PluginError: a plugin that ``[plugins] enable`` names cannot be used.
        """
        from amem_core.services.doctor import doctor

        checks = doctor(self.runtime)
        if self.runtime.config.enable:
            from amem_core.plugins.loader import enabled_plugins

            for found in enabled_plugins(self.runtime.config.enable).hook.amem_checks(root=self.root):
                checks.extend(found)
        return checks

    def close(self) -> None:
        """Close every port that was opened. Idempotent."""
        self.runtime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
