"""Finding and opening the backend that the configuration names, and nothing else.

First-party backends are known by a table, so that they work from a tree without installed metadata
and cost no metadata scan; a stranger's is found by its entry point. Both come in as the same
``BackendSpec`` from the same function of a plugin module, and pass the same checks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from amem_core.errors import (
    PluginConflictError,
    PluginIncompatibleError,
    PluginLoadError,
    PluginNotFoundError,
)
from amem_core.plugins.settings import build_settings
from amem_core.plugins.spec import BackendSpec
from amem_core.ports import API

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "amem.backends"
PLUGINS = "amem.plugins"
BUILT_IN = {
    "store.files": "amem_store.plugins.files",
    "log.jsonl": "amem_store.plugins.jsonl",
    "index.sqlite": "amem_index.plugins.sqlite",
    "index.tantivy": "amem_index.plugins.tantivy",
    "ledger.sqlite": "amem_ledger.plugins.sqlite",
    "ledger.postgres": "amem_ledger.plugins.postgres",
    "policy.rego": "amem_policy.plugins.rego",
    **{f"{port}.memory": "amem_core.reference.plugin" for port in API},
}
# Which distribution holds a first-party plugin, for the message when it is not installed.
_HOMES = {
    "store": "amem-store",
    "log": "amem-store",
    "index": "amem-index",
    "ledger": "amem-ledger",
    "policy": "amem-policy",
}


def load_backend(key: str, *, allow: Collection[str] = ()) -> BackendSpec:
    """Return the spec of the backend ``<port>.<name>``; its driver is not imported.

    Raises:
        PluginNotFoundError: nothing installed provides it.
        PluginConflictError: two installed distributions do.
        PluginLoadError: it is a stranger's and ``[plugins] allow`` does not name it, or its module fails.
        PluginIncompatibleError: it was written against another port API.
    """
    module = _import_built_in(key) if key in BUILT_IN else _import_stranger(key, _entry_point(key), allow)
    declared = _declared(module) if key in BUILT_IN else _declared_through_hooks(module)
    spec = next((spec for spec in declared if f"{spec.port}.{spec.name}" == key), None)
    if spec is None:
        message = f"the plugin {module.__name__} does not declare the backend {key} that it is registered for"
        raise PluginLoadError(message, hint="tell the plugin's authors")
    _shake_hands(spec, key)
    return spec


def open_backend(
    spec: BackendSpec,
    root: str,
    table: Mapping[str, Any] | None = None,
    *,
    where: str = "settings",
    environ: Mapping[str, str] | None = None,
) -> Any:
    """Open the backend: validate its settings, import its driver, call its factory.

    Raises:
        ConfigError: ``table`` does not fit the settings.
        PluginLoadError: the driver, or the plugin's own code, does not import.
        AmemError: what the factory raises.
    """
    settings_class = _attribute(spec, spec.settings)
    settings = build_settings(settings_class, table, where=where, environ=environ or {}, root=root)
    return _attribute(spec, spec.factory)(root, settings)


def plugin_manager(modules: Collection[Any]) -> Any:
    """Return a pluggy manager with the hookspecs and ``modules`` registered and checked.

    Functions whose names begin with ``amem_`` implement the hook of that name, without a marker.

    Raises:
        PluginLoadError: a module implements a hook that does not exist, or asks for an unknown argument.
    """
    import pluggy

    from amem_core.plugins import hookspecs

    class Manager(pluggy.PluginManager):
        def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
            declared = super().parse_hookimpl_opts(plugin, name)
            if declared is None and name.startswith("amem_") and callable(getattr(plugin, name)):
                return pluggy.HookimplOpts(
                    wrapper=False, hookwrapper=False, optionalhook=False, tryfirst=False, trylast=False, specname=None
                )
            return declared

    manager = Manager("amem")
    manager.add_hookspecs(hookspecs)
    try:
        for module in modules:
            manager.register(module)
        manager.check_pending()
    except pluggy.PluginValidationError as exc:
        message = f"a plugin does not fit amem's hooks: {exc}"
        raise PluginLoadError(message, hint="upgrade the plugin, or take it out of amem.toml") from exc
    return manager


def enabled_plugins(names: Collection[str]) -> Any:
    """Return a manager of the plugins of group ``amem.plugins`` that ``[plugins] enable`` names.

    Raises:
        PluginNotFoundError: nothing installed provides one.
        PluginConflictError: two installed distributions do.
        PluginLoadError: one does not import, or does not fit the hooks.
    """
    return plugin_manager([_import(name, _one_entry_point(PLUGINS, name)) for name in names])


def _one_entry_point(group: str, name: str) -> EntryPoint:
    from importlib.metadata import entry_points

    found = entry_points(group=group, name=name)
    if not found:
        message = f"no installed distribution provides the plugin {name}"
        raise PluginNotFoundError(message, hint="install it, or take it out of [plugins] enable in amem.toml")
    return _only(name, found)


def _import_built_in(key: str) -> Any:
    try:
        return import_module(BUILT_IN[key])
    except ModuleNotFoundError as exc:
        home = _HOMES.get(key.partition(".")[0], "amem-core")
        if exc.name is None or not BUILT_IN[key].startswith(exc.name):
            raise
        message = f"the backend {key} is not installed"
        raise PluginNotFoundError(message, hint=f"python -m pip install {home}") from exc


def _entry_point(key: str) -> EntryPoint:
    from importlib.metadata import entry_points

    found = entry_points(group=GROUP, name=key)
    if not found:
        port = key.partition(".")[0]
        from difflib import get_close_matches

        known = sorted({name for name in (*BUILT_IN, *entry_points(group=GROUP).names) if name.startswith(f"{port}.")})
        near = get_close_matches(key, known, n=1)
        message = f"no installed distribution provides the backend {key}"
        hint = f"installed for {port}: {', '.join(name.partition('.')[2] for name in known)}"
        if near:
            hint = f"did you mean {near[0].partition('.')[2]}? {hint}"
        raise PluginNotFoundError(message, hint=f"{hint}; or install the distribution that brings it")
    return _only(key, found)


def _only(name: str, found: EntryPoints) -> EntryPoint:
    if len(found) == 1:
        return next(iter(found))
    names = ", ".join(sorted(point.dist.name if point.dist else point.value for point in found))
    message = f"{len(found)} installed distributions provide {name}: {names}"
    raise PluginConflictError(message, hint="uninstall all but one")


def _import_stranger(key: str, point: EntryPoint, allow: Collection[str]) -> Any:
    if key not in allow:
        message = f"the backend {key} of {_dist(point)} is third-party and not allowed"
        raise PluginLoadError(message, hint=f'add "{key}" to allow in the [plugins] table of amem.toml')
    return _import(key, point)


def _import(name: str, point: EntryPoint) -> Any:
    dist = _dist(point)
    try:
        return point.load()
    except Exception as exc:  # a stranger's module may raise anything; it becomes one named error
        message = f"the plugin {dist} for {name} does not load: {type(exc).__name__}: {exc}"
        hint = f"reinstall or upgrade {dist.partition(' ')[0]}, or take it out of amem.toml"
        raise PluginLoadError(message, hint=hint) from exc


def _dist(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _declared(module: Any) -> list[BackendSpec]:
    declare = getattr(module, "amem_backends", None)
    if not callable(declare):
        message = f"the plugin {module.__name__} has no function amem_backends"
        raise PluginLoadError(message, hint="tell the plugin's authors")
    return list(declare())


def _declared_through_hooks(module: Any) -> list[BackendSpec]:
    """Ask a stranger's module as pluggy does, which refuses a hook that it misspelt."""
    _declared(module)
    return [spec for declared in plugin_manager([module]).hook.amem_backends() for spec in declared]


def _shake_hands(spec: BackendSpec, key: str) -> None:
    major, minor = API[spec.port]
    if spec.api[0] == major and spec.api[1] <= minor:
        return
    message = (
        f"{key} was written against version {spec.api[0]}.{spec.api[1]} of the {spec.port} port;"
        f" this amem-core serves {major}.{minor}"
    )
    remedy = "upgrade the plugin" if spec.api[0] < major else "python -m pip install --upgrade amem-core"
    raise PluginIncompatibleError(message, hint=remedy)


def _attribute(spec: BackendSpec, dotted: str) -> Any:
    module, _, name = dotted.partition(":")
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as exc:
        if exc.name is not None and module.startswith(exc.name.partition(".")[0]):
            message = f"{spec.port}.{spec.name}: its module {module} is not there"
            raise PluginLoadError(message, hint="reinstall the plugin") from exc
        message = f"{spec.port}.{spec.name} needs {exc.name}, which is not installed"
        hint = f"python -m pip install 'amem[{spec.extra}]'" if spec.extra else "reinstall the plugin"
        raise PluginLoadError(message, hint=hint) from exc
