"""From a backend's key, such as ``index.sqlite``, to its harness and to an opened port.

The reference adapters and the first-party backends are found without a distribution's metadata, so
that the suite runs from a source tree; any other backend is found by its entry points.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, cast

from amem_conformance.harness import Harness, Opened, OpeningHarness, ServedHarness, Site
from amem_conformance.manifest import PORTS
from amem_conformance.services import shared
from amem_core.errors import ConfigError, InvalidError, PluginConflictError, PluginLoadError, PluginNotFoundError
from amem_core.plugins.loader import load_backend, open_backend
from amem_core.reference.tools import MemoryTools
from amem_core.testing import DirectoryHarness

GROUP: Final = "amem.conformance"

_FIRST_PARTY: Final = {
    "store.files": "amem_store.testing:files_harness",
    "log.jsonl": "amem_store.testing:jsonl_harness",
    "index.sqlite": "amem_index.testing:harness",
    "ledger.sqlite": "amem_ledger.testing:harness",
    "policy.rego": "amem_policy.testing:harness",
}
# Those that need a service; `amem_conformance.services` starts it.
_SERVED: Final = {
    "ledger.postgres": "amem_ledger.testing:postgres_harness",
}
# Those that need a driver which not everybody installs.
_DRIVEN: Final = {
    "index.tantivy": "amem_index.testing:tantivy_harness",
}
REFERENCE: Final = tuple(f"{port}.memory" for port in PORTS)
EMBEDDED: Final = (*REFERENCE, *_FIRST_PARTY)


class MemoryHarness(DirectoryHarness):
    """The harness of a reference adapter: a fresh directory, and no bytes behind the port's back."""

    def raw(self, site: Site) -> None:
        """Return None: a reference adapter keeps no bytes."""

    def equip(self, backend: MemoryTools) -> None:
        """Register the tools that the suite calls."""
        backend.register("echo", _echo)
        backend.register("strict", _strict)
        backend.register("broken", _broken)
        backend.register("nonsense", _nonsense)


def _echo(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"config": config, "arguments": arguments}


def _strict(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    message = f"strict takes no {', '.join(arguments) or 'call'}"
    raise InvalidError(message, hint="do not call it", config=len(config))


def _broken(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"answer": config["is not there"], "arguments": arguments}


def _nonsense(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"answer": {len(config), len(arguments)}}


def port_of(key: str) -> str:
    """Return the port of a backend's key.

    Raises:
        ConfigError: the key does not name a port and a backend.
    """
    port, _, name = key.partition(".")
    if port in PORTS and name:
        return port
    message = f"{key!r} is not the key of a backend"
    raise ConfigError(message, hint=f"a key is <port>.<name>, such as 'store.files'; the ports are {', '.join(PORTS)}")


def find_harness(key: str, given: str | None = None) -> Harness:
    """Return the harness of the backend ``key``; ``given`` is a ``module:object`` that replaces the look-up.

    Raises:
        ConfigError: the key does not name a port and a backend.
        PluginNotFoundError: nobody registers a harness under that key.
        PluginConflictError: two distributions do.
        PluginLoadError: the harness is registered and does not load.
    """
    port_of(key)
    if given is not None:
        return _made(_named(given))
    if key in REFERENCE:
        return MemoryHarness()
    first_party = _FIRST_PARTY.get(key) or _SERVED.get(key) or _DRIVEN.get(key)
    if first_party is not None:
        return _made(_named(first_party))
    found = list(importlib.metadata.entry_points(group=GROUP, name=key))
    if not found:
        message = f"no installed distribution registers a harness for {key!r}"
        known = ", ".join(
            sorted(
                {*EMBEDDED, *_SERVED, *_DRIVEN, *(point.name for point in importlib.metadata.entry_points(group=GROUP))}
            )
        )
        raise PluginNotFoundError(message, hint=f"add an entry point of group {GROUP!r}; known are: {known}")
    if len({point.value for point in found}) > 1:
        message = f"{key!r} has more than one harness: {', '.join(point.value for point in found)}"
        raise PluginConflictError(message, hint="uninstall one of the distributions")
    return _made(_named(found[0].value))


def open_at(key: str, harness: Harness, site: Site) -> Opened:
    """Open the backend ``key`` on ``site``: by the harness if it opens by itself, else as a root would.

    Raises:
        AmemError: whatever the opening raises.
    """
    opens = getattr(harness, "open", None)
    if callable(opens):
        return cast("OpeningHarness", harness).open(site)
    spec = load_backend(key, allow={key})
    return cast("Opened", open_backend(spec, site.root, site.settings))


@contextmanager
def started(harness: Harness, scratch: Path) -> Generator[Harness]:
    """Start the harness for as long as the context lasts.

    Raises:
        UnavailableError: what the backend needs is not there.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        name = service_of(harness)
        if name is not None:
            cast("ServedHarness", harness).serve(stack.enter_context(shared(name)))
        stack.enter_context(harness.start(scratch))
        yield harness


def service_of(harness: Harness) -> str | None:
    """Return the name of the service that the harness needs, None for one that needs none."""
    name = getattr(harness, "service", None)
    return name if isinstance(name, str) else None


def _named(dotted: str) -> Callable[..., Any]:
    """Return the object that ``module:object`` names."""
    module, _, attribute = dotted.partition(":")
    try:
        return cast("Callable[..., Any]", getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        message = f"{dotted} does not load: {error}"
        raise PluginLoadError(message, hint="install what it needs") from error
    except AttributeError as error:
        message = f"{module} has no {attribute}"
        raise PluginLoadError(message, hint="correct the entry point") from error


def _made(found: Harness | Callable[[], Harness]) -> Harness:
    """Return the harness that an entry point's value is or makes."""
    if hasattr(found, "fresh") and not isinstance(found, type):
        return cast("Harness", found)
    return cast("Callable[[], Harness]", found)()
