"""Real services for tests: PostgreSQL, and whatever else a backend talks to, each started by itself on loopback.

A test borrows a service with ``shared`` (one server for all tests of a session and all its xdist
workers, stopped when the last one is done) or ``private`` (its own, which it may stop, kill and start
again). Either raises ``UnavailableError`` when there is none on this machine; inside pytest ``lent``
(in ``amem_conformance.services.lending``) makes of it a skip that says ``unavailable``, or a failure
where ``--amem-require`` asks for the service.

**To add one** (S3, Solr, Kafka, …): write ``services/<name>.py`` with a subclass of ``base.Service``
that says how it is prepared, started, asked whether it answers, and where it is; name it in
``SERVICES`` below; say in ``nox -s services`` how it is fetched; give the backend's harness
``service = "<name>"`` and ``serve(address)``, and the suite starts the service before the harness.
``postgres.py`` is the example. An address is a mapping of texts, such as ``{"dsn": …}`` or
``{"endpoint": …, "key": …, "secret": …}``, and an environment variable may give one that runs already.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final, cast

from amem_conformance.services.base import Server, Service, private_of, shared_of
from amem_core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

__all__ = ["SERVICES", "Server", "Service", "find_service", "private", "shared"]

SERVICES: Final = {
    "postgres": "amem_conformance.services.postgres:Postgres",
}


def find_service(name: str) -> Service:
    """Return the service of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in SERVICES:
        message = f"there is no service {name!r}"
        raise ConfigError(message, hint=f"one of: {', '.join(SERVICES)}")
    module, _, attribute = SERVICES[name].partition(":")
    return cast("Service", getattr(importlib.import_module(module), attribute)())


def shared(name: str) -> AbstractContextManager[Mapping[str, str]]:
    """Lend the address of the session's server of that name, started by whoever asks first.

    Raises (when entered):
        UnavailableError: it is not installed here, or does not start.
    """
    return shared_of(find_service(name))


def private(name: str) -> AbstractContextManager[Server]:
    """Lend a running server that nobody else uses.

    Raises (when entered):
        UnavailableError: it is not installed here, or does not start.
    """
    return private_of(find_service(name))
