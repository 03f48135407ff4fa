"""Where faults are tried: a root on the chosen backends with something of everything in it, as often as it is needed.

Backends that keep all that they have below the root are copied from one that was prepared once; for
any other, each root is prepared anew on a site of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from amem_conformance.harness import Harness
from amem_conformance.loading import find_harness, port_of, service_of, started
from amem_core import Draft, Memory
from amem_core.config import DEFAULTS, FILE
from amem_core.domain.labels import Label
from amem_core.errors import ConfigError, FormatError
from amem_core.format.entry import digest, parse
from amem_core.ports.store import Stored
from amem_core.session import Session

DOMAIN: Final = "notes"
ELSEWHERE: Final = "elsewhere"
BODY: Final = "The whole body, from the first to the last word.\n\n" + "filler " * 60
WORD: Final = "zebra"
"""Stands in what an action writes and in nothing else."""
UNIQUE: Final = "unforgettable"
"""Stands in what an erasure removes and in nothing else."""

Facts = dict[str, Any]
Record = dict[str, tuple[int, str, str]]
"""Version, digest and status by id."""

_PORTS: Final = ("store", "log", "index", "ledger")


@dataclass(frozen=True)
class Place:
    """One copy of the ground. ``facts`` are what the actions need to know of it, as JSON has it."""

    directory: str
    facts: Facts

    @property
    def root(self) -> str:
        """The root."""
        return os.path.join(self.directory, "root")

    @property
    def bundle(self) -> str:
        """A bundle of three entries that the root does not have."""
        return os.path.join(self.directory, "bundle")

    @property
    def out(self) -> str:
        """Where an export goes; not there yet."""
        return os.path.join(self.directory, "out")

    def remove(self) -> None:
        """Remove it, whatever its modes have become."""
        for directory, _, _ in os.walk(self.directory):
            os.chmod(directory, 0o700)
        shutil.rmtree(self.directory)


@dataclass(frozen=True)
class Ground:
    """Gives places.

    Attributes:
        backends: the key of each port's backend.
        copied: whether places are copies of one; else each is made anew, in the harness's own process.
    """

    scratch: str
    backends: Mapping[str, str]
    copied: bool
    harnesses: Mapping[str, Harness] = field(default_factory=dict[str, Harness])

    def place(self) -> Place:
        """Return a fresh place."""
        directory = os.path.realpath(tempfile.mkdtemp(prefix="place-", dir=self.scratch))
        if not self.copied:
            return _prepared(directory, self.backends, self.harnesses)
        shutil.copytree(self._template, directory, dirs_exist_ok=True)
        with open(os.path.join(directory, "facts.json"), "rb") as file:
            return Place(directory, json.load(file))

    def prepare(self) -> None:
        """Make what the places are copies of."""
        if self.copied:
            os.mkdir(self._template)
            _prepared(self._template, self.backends, self.harnesses)

    @property
    def _template(self) -> str:
        return os.path.join(self.scratch, "template")


@contextmanager
def prepared(keys: tuple[str, ...] = (), *, scratch: str | None = None) -> Generator[Ground]:
    """Give the ground on the embedded backends with ``keys``, such as ``store.example``, in the place of their ports'.

    ``scratch`` is where the places go; it defaults to memory where the system has such a directory,
    since a process that dies loses nothing that the system holds.

    Raises:
        ConfigError: a key names no port that faults are tried on, or a backend that keeps nothing.
        AmemError: a backend cannot be used.
    """
    backends = {port: f"{port}.{DEFAULTS[port]}" for port in _PORTS}
    for key in keys:
        backends[_port(key)] = key
    memory = "/dev/shm"  # noqa: S108  (a directory of its own is made in it)
    home = scratch or (memory if os.access(memory, os.W_OK) else None)
    with tempfile.TemporaryDirectory(prefix="amem-faults-", dir=home) as directory, ExitStack() as stack:
        harnesses = {key: find_harness(key) for key in keys}
        for key, harness in harnesses.items():
            stack.enter_context(started(harness, Path(directory, key)))
        copied = not any(service_of(harness) or harness.fresh().settings for harness in harnesses.values())
        ground = Ground(os.path.realpath(directory), backends, copied, harnesses)
        ground.prepare()
        yield ground


def _port(key: str) -> str:
    port = port_of(key)
    if port in _PORTS and key != f"{port}.memory":
        return port
    message = f"faults are not tried on {key}"
    raise ConfigError(message, hint=f"name a backend that keeps what it is given, of one of: {', '.join(_PORTS)}")


def opened(place: Place) -> Memory:
    """Open the place's memory, as any process does."""
    return Memory.open(place.root, environ=os.environ)


@contextmanager
def owner(place: Place) -> Generator[Session]:
    """Open the place's memory and a session of the owner; close both."""
    with opened(place) as memory, memory.session(author="owner") as session:
        yield session


def _prepared(directory: str, backends: Mapping[str, str], harnesses: Mapping[str, Harness]) -> Place:
    place = Place(directory, {})
    os.mkdir(place.root, 0o700)
    if harnesses:
        text = _configuration(backends, {key: harness.fresh().settings for key, harness in harnesses.items()})
        Path(place.root, FILE).write_text(text, encoding="utf-8")
    for name in (DOMAIN, ELSEWHERE):
        Memory.init(place.root, domain=name)
    with owner(place) as session:
        _fill(session, place.facts)
        session.write_many([_draft(f"Resting {number}", domain=ELSEWHERE) for number in range(3)])
    place.facts["travelling"] = _bundle(os.path.join(directory, "origin"), place.bundle)
    with open(os.path.join(directory, "facts.json"), "w", encoding="utf-8") as file:
        json.dump(place.facts, file)
    return place


def _bundle(origin: str, to: str) -> list[str]:
    """Export three entries of a memory that is forgotten at once; return their ids."""
    os.mkdir(origin, 0o700)
    lines = [f'[{port}]\nbackend = "memory"\n' for port in _PORTS]
    Path(origin, FILE).write_text("".join(lines), encoding="utf-8")
    Memory.init(origin, domain=DOMAIN)
    with Memory.open(origin) as memory, memory.session(author="owner") as session:
        written = session.write_many([_draft(f"Travelling {number}", text=WORD) for number in range(3)])
        session.export(DOMAIN, to)
    shutil.rmtree(origin)
    return [answer.id for answer in written]


def _configuration(backends: Mapping[str, str], settings: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["format = 1", "[plugins]", f"allow = {json.dumps(sorted(settings))}"]
    for port, key in backends.items():
        name = key.partition(".")[2]
        lines += [f"[{port}]", f"backend = {json.dumps(name)}"]
        if settings.get(key):
            lines += [f"[{port}.{json.dumps(name)}]", *_table(settings[key])]
    return "\n".join(lines) + "\n"


def _table(settings: Mapping[str, Any]) -> list[str]:
    return [f"{json.dumps(name)} = {_value(value)}" for name, value in settings.items() if value is not None]


def _value(value: Any) -> str:
    """Return a setting as TOML: JSON but for tables."""
    if isinstance(value, Mapping):
        settings = cast("Mapping[str, Any]", value)
        inside = ", ".join(f"{json.dumps(name)} = {_value(inner)}" for name, inner in settings.items())
        return f"{{ {inside} }}"
    return json.dumps(value)


def _draft(title: str, *, domain: str = DOMAIN, text: str = "", **fields: Any) -> Draft:
    summary = f"{title}, in one sentence"
    return Draft(domain=domain, type="fact", title=title, summary=summary, body=f"{title}. {text}\n\n{BODY}", **fields)


def _fill(session: Session, facts: Facts) -> None:
    """Write something of everything, and take down what was acknowledged."""
    named = {name: session.write(_draft(name)).id for name in ("changing", "old", "doubtful", "sound", "kept")}
    facts.update(named)
    session.write(_draft("changing", id=named["changing"], text="Said a second time."))
    facts["derived"] = session.write(_draft("derived", derived_from=(named["doubtful"],))).id
    facts["secret"] = session.write(_draft(UNIQUE, text=UNIQUE)).id
    session.write(_draft(f"{UNIQUE} again", id=facts["secret"], text=UNIQUE))
    facts["gone"] = session.write(_draft("gone")).id
    session.erase(facts["gone"], reason="mistaken")
    facts["rejected"] = session.write(_draft("rejected")).id
    session.reject(facts["rejected"], reason="measured otherwise")
    for number in range(2):
        session.write(_draft(f"more {number}"))
    for name in ("free", "held", "done"):
        facts[name] = session.create_task(domain=DOMAIN, title=f"Task {name}", summary="a promise", body=BODY).task.id
    facts["fence"] = session.claim(facts["held"], lease=3600).task.fence
    fence = session.claim(facts["done"], lease=3600).task.fence
    session.complete(facts["done"], fence=fence, result="all of it, as was asked")
    facts["entries"] = {id: [version, key] for id, (version, key, _) in record_of(session).items()}
    facts["found"] = sorted(hit.id for hit in session.search("filler", domain=DOMAIN, limit=100).hits)


def record_of(session: Session) -> Record:
    """Return version, digest and status of every entry that the record holds, by id."""
    store, clock = session.runtime.store, session.runtime.clock
    found: Record = {}
    for stored in store.entries(DOMAIN):
        if not isinstance(stored, Stored):
            message = f"{stored.path}: {stored.reason}"
            raise FormatError(message)
        data = store.read(DOMAIN, stored.id)
        entry = parse(data, domain=DOMAIN, id=stored.id, fallback_time=clock.now(), fallback_label=Label.restricted)
        found[stored.id] = entry.version, digest(data), str(entry.status)
    return found
