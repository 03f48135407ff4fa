"""What a plugin says of a backend that it brings: names and dotted strings, so that nothing is imported by asking."""

from __future__ import annotations

from typing import NamedTuple


class BackendSpec(NamedTuple):
    """One backend of one port. Written with keywords.

    Attributes:
        port: ``store``, ``index``, ``ledger``, ``log``, ``policy`` or ``tools``.
        name: the name that ``amem.toml`` uses; the entry point is ``<port>.<name>``.
        api: the version of the port's API that it was written against, (major, minor).
        settings: ``module:Class``, a frozen dataclass or a named tuple whose fields are the keys of the backend's
            table in ``amem.toml``, every one with a default or required; its module imports no driver.
        factory: ``module:function`` called as ``function(root, settings)`` with the root's path as a
            string and an instance of the settings; it returns the opened port.
        extra: the extra of ``amem`` that installs the driver, None when none is needed.
        summary: one line for ``amem plugins``.
    """

    port: str
    name: str
    api: tuple[int, int]
    settings: str
    factory: str
    extra: str | None = None
    summary: str = ""
