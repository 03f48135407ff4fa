"""``grants.toml``: the owner's policy data, read strictly, because a misspelt key must not grant or withhold in silence."""

from __future__ import annotations

import json
import os
import tomllib
from typing import TYPE_CHECKING, Any, cast

from amem_core.domain.labels import Label
from amem_core.domain.names import check_domain
from amem_core.errors import ConfigError, InvalidError, UnknownFormatError
from amem_policy.stamps import stamp, unreadable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from amem_policy.stamps import Stamp

FORMAT = 1
OWNER = "owner"

_TABLES = ("format", "owner", "domains", "destinations")
_MEND = "mend the line; the format is described in the documentation of grants.toml"


class Grants:
    """What the owner granted.

    Attributes:
        data: the bytes of the file; empty when there is no file.
        domains: the domains that the grants know and the label of what is written there by default.
        held: those of them that the owner holds.
        destinations: where something may flow to, and the highest label that may.
    """

    __slots__ = ("data", "destinations", "domains", "held")

    def __init__(
        self, data: bytes, domains: Mapping[str, Label], held: Collection[str], destinations: Mapping[str, Label]
    ) -> None:
        self.data = data
        self.domains = domains
        self.held = held
        self.destinations = destinations

    def as_json(self) -> str:
        """Return the document ``data`` of the policy, indexed by holder and name."""
        return json.dumps(
            {
                "grants": {
                    "held": {OWNER: {name: {"label": str(self.domains[name])} for name in self.held}},
                    "destinations": {name: {"ceiling": str(label)} for name, label in self.destinations.items()},
                }
            }
        )


def read_file(path: str) -> tuple[bytes, Stamp]:
    """Return the bytes of the file and the stamp that they had at the latest; nothing and None for no file.

    Raises:
        UnavailableError: it is there and cannot be read.
    """
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            return file.read(), stamp(found)
    except FileNotFoundError:
        return b"", None
    except OSError as exc:
        raise unreadable(path, exc) from exc


def parse_grants(data: bytes, path: str) -> Grants:
    """Return the grants that ``data`` states; ``path`` is for the messages.

    Raises:
        ConfigError: it is no TOML, or a key is unknown, missing or of the wrong kind; file and line are named.
        UnknownFormatError: a newer amem wrote it.
    """
    try:
        text = data.decode()
        table = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        message = f"{path} is no TOML: {exc}"
        raise ConfigError(message, hint="mend the line that the message names") from exc
    reader = _Reader(path, text)
    reader.check_format(table)
    reader.known(table, _TABLES, ())
    owner = reader.table(table, "owner", ())
    reader.known(owner, ("name",), ("owner",))
    reader.text(owner, "name", "", ("owner",))
    domains: dict[str, Label] = {}
    held: list[str] = []
    for name, grant in reader.tables(table, "domains"):
        where = ("domains", name)
        reader.domain(name, where)
        reader.known(grant, ("label", "holders"), where)
        domains[name] = reader.label(grant, "label", where, "internal")
        if OWNER in reader.holders(grant, where):
            held.append(name)
    destinations: dict[str, Label] = {}
    for name, grant in reader.tables(table, "destinations"):
        where = ("destinations", name)
        reader.known(grant, ("ceiling",), where)
        destinations[name] = reader.label(grant, "ceiling", where, None)
    return Grants(data, domains, held, destinations)


def add_domain(path: str, name: str, label: Label | str = Label.internal) -> None:
    """Append ``[domains.<name>]`` to the file, made with owner-only permissions when there is none.

    Whole or not at all, durable on return; what stood there is kept byte for byte.

    Raises:
        InvalidError: the name or the label breaks a rule.
        ConflictError: the grants know the domain already.
        ConfigError: the file is broken, or states its domains in a way that cannot be appended to.
        UnavailableError: the file cannot be written; it is as it was.
    """
    from amem_policy.editing import append_domain  # noqa: PLC0415  (no decision needs it)

    append_domain(path, name, label)


class _Reader:
    """Checks one file and words its faults: each names file, line and key."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def fault(self, keys: tuple[str, ...], what: str, hint: str = _MEND) -> ConfigError:
        from amem_policy.lines import line_of  # noqa: PLC0415  (only a message needs it)

        line = line_of(self._text, keys)
        place = f"{self._path}, line {line}" if line else self._path
        return ConfigError(f"{place}: {'.'.join(keys)} {what}", hint=hint)

    def check_format(self, table: Mapping[str, Any]) -> None:
        found = table.get("format")
        if type(found) is int and found > FORMAT:
            message = f"{self._path} has format {found}, and this amem knows up to {FORMAT}"
            raise UnknownFormatError(message, hint="upgrade amem; the file is left as it is")
        if type(found) is not int or found != FORMAT:
            raise self.fault(("format",), f"must be there and be {FORMAT}", f"begin the file with: format = {FORMAT}")

    def known(self, table: Mapping[str, Any], keys: tuple[str, ...], where: tuple[str, ...]) -> None:
        for key in table:
            if key not in keys:
                raise self.fault((*where, key), "is not known", f"known here: {', '.join(keys)}")

    def table(self, parent: Mapping[str, Any], key: str, where: tuple[str, ...]) -> Mapping[str, Any]:
        found = parent.get(key, {})
        if isinstance(found, dict):
            return cast("dict[str, Any]", found)
        raise self.fault((*where, key), "must be a table")

    def tables(self, parent: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
        outer = self.table(parent, key, ())
        return [(name, self.table(outer, name, (key,))) for name in outer]

    def text(self, table: Mapping[str, Any], key: str, default: str, where: tuple[str, ...]) -> str:
        found = table.get(key, default)
        if isinstance(found, str):
            return found
        raise self.fault((*where, key), "must be text")

    def domain(self, name: str, where: tuple[str, ...]) -> None:
        try:
            check_domain(name)
        except InvalidError as exc:
            raise self.fault(where, f"cannot be: {exc}", exc.hint) from exc

    def label(self, table: Mapping[str, Any], key: str, where: tuple[str, ...], default: str | None) -> Label:
        found = table.get(key, default)
        if isinstance(found, str) and found in Label.__members__:
            return Label[found]
        what = "is missing" if found is None else f"is {found!r}, which is no label"
        raise self.fault((*where, key), what, f"one of: {', '.join(Label.__members__)}")

    def holders(self, table: Mapping[str, Any], where: tuple[str, ...]) -> list[str]:
        found = table.get("holders", [OWNER])
        if isinstance(found, list):
            names = cast("list[object]", found)
            if all(name == OWNER for name in names):
                return [OWNER] if names else []
        raise self.fault((*where, "holders"), f"must be a list in which only {OWNER!r} stands")
