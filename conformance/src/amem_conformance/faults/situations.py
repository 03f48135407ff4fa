"""What befalls a whole root: no room, a clock that jumps back, two writers of whom one dies, a rebuild under a reader."""

from __future__ import annotations

import os
import resource
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

from amem_conformance.faults.actions import ACTIONS
from amem_conformance.faults.children import Child, Tell, finished, start
from amem_conformance.faults.crashing import Heard, last
from amem_conformance.faults.failing import goes_on, untrue
from amem_conformance.faults.ground import BODY, DOMAIN, Ground, Place, opened, owner
from amem_conformance.faults.judging import ANYTHING, HALF, LOST, WHOLE, Action, described, judge
from amem_conformance.faults.permissions import read_only, unreadable
from amem_conformance.faults.rows import Row
from amem_core import Draft, Memory
from amem_core.system import SystemClock
from amem_core.testing import FrozenClock

EACH: Final = 200
_FEW: Final = 60
_MORE: Final = 60
_REBUILDS: Final = 5
_LONGEST: Final = 300.0
_MOST_BYTES: Final = 1 << 17


def _judged(row: Row, place: Place, action: Action, promised: Any, where: str, *, told: bool) -> None:
    """Judge a place in a process of its own and take in what comes of it."""
    outcome, problems = _judgement(place, action, promised, told=told)
    row.take(outcome, told=told, where=where, problems=problems)


def _judgement(place: Place, action: Action, promised: Any, *, told: bool) -> tuple[str, list[str]]:
    child = finished(lambda tell: tell(judge(place, action, promised, told=told)), longest=_LONGEST)
    if child.failure is not None:
        return (LOST if told else HALF), [child.failure]
    outcome, problems = child.told[-1]
    return outcome, problems


# -- no room ----------------------------------------------------------------------------------------


def file_size(ground: Ground, *, quick: bool, heard: Heard) -> Row:
    """Write where no file may grow beyond so many bytes: the system itself cuts the write short and refuses the rest."""
    row = Row("situation", "a limit on the size of files", "EFBIG, the system's own")
    place = ground.place()
    longest = sorted({os.path.getsize(path) for path in _files(place.root)})
    place.remove()
    # At the end of what is there nothing may grow; a little behind it, a write is cut in its middle.
    limits = sorted({size + more for size in (0, *longest) if size < _MOST_BYTES for more in (0, 1, 300, 2000)})
    limits = limits[:: 12 if quick else 2]
    for done, limit in enumerate(limits):
        heard(done, len(limits))
        for action in (ACTIONS[0], ACTIONS[4]):
            place = ground.place()
            child = finished(partial(_limited, place, action, limit))
            promised = last(child, "promised")
            refused = last(child, "refused")
            row.refused += refused is not None and not refused["untrue"]
            row.wrong += (refused is not None and refused["untrue"]) or child.failure is not None
            where = f"{action.name}, {limit} bytes"
            row.note(where, [refused["refused"]] if refused and refused["untrue"] else [])
            row.note(where, [child.failure] if child.failure else [])
            met = last(child, "met")
            row.half += bool(met and met["met"])
            row.note(where, met["met"] if met else [])
            told = promised is not None
            _judged(row, place, action, promised["promised"] if told else {}, where, told=told)
            place.remove()
    heard(len(limits), len(limits))
    return row


def _files(root: str) -> list[str]:
    return [os.path.join(directory, name) for directory, _, names in os.walk(root) for name in names]


def _limited(place: Place, action: Action, limit: int, tell: Tell) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    memory: Memory | None = None
    try:
        memory = opened(place)
        tell({"promised": action.act(memory.session(author="owner"), place)})
    except Exception as error:  # noqa: BLE001  (which kind it is, is the question)
        tell({"refused": described(error), "untrue": untrue(error)})
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    if memory is not None:
        tell({"met": goes_on(memory)})
        memory.close()


# -- time -------------------------------------------------------------------------------------------


def clock_back(ground: Ground, *, quick: bool, heard: Heard) -> Row:
    """Do every action with a clock that stands a year before what was written last, and judge by the true one."""
    del quick
    row = Row("situation", "a clock that jumped back", "a year")
    for done, action in enumerate(ACTIONS):
        heard(done, len(ACTIONS))
        place = ground.place()
        child = finished(partial(_with_old_clock, place, action))
        promised = last(child, "promised")
        if promised is None:
            row.wrong += 1
            row.note(action.name, [child.failure or "it was not done"])
        _judged(row, place, action, promised["promised"] if promised else {}, action.name, told=promised is not None)
        place.remove()
    heard(len(ACTIONS), len(ACTIONS))
    return row


def _with_old_clock(place: Place, action: Action, tell: Tell) -> None:
    action.prepare(place)
    clock = FrozenClock(SystemClock().now() - timedelta(days=365))
    with Memory.open(place.root, clock=clock, environ=os.environ) as memory, memory.session(author="owner") as session:
        tell({"promised": action.act(session, place)})


# -- many processes ---------------------------------------------------------------------------------


def two_writers(ground: Ground, *, quick: bool, heard: Heard) -> Row:
    """Let two processes write to one domain and kill one of them half way: what either was told is there, in a log without gaps."""
    each = _FEW if quick else EACH
    row = Row("situation", "two writers in one domain", f"{each} entries each, kill -9 of one half way")
    place = ground.place()
    writers = [start(partial(_write_many, place, name, each)) for name in ("one", "other")]
    _watch(
        writers,
        lambda child: child is writers[1] and len(child.told) >= each // 2,
        lambda: heard(_told(writers), 2 * each),
    )
    promised = {id: kept for writer in writers for id, *kept in writer.told}
    failures = [writer.failure for writer in writers if writer.failure is not None]
    if len(writers[0].told) != each:
        failures.append(f"the writer that nobody killed was told of {len(writers[0].told)}")

    outcome, problems = _judgement(place, ANYTHING, promised, told=True)
    problems += failures
    row.tried = row.acknowledged = len(promised)
    row.found = len(promised) if outcome == WHOLE else 0
    row.whole, row.lost, row.half = row.found, int(outcome == LOST), int(outcome == HALF or bool(failures))
    row.note("afterwards", problems)
    heard(2 * each, 2 * each)
    place.remove()
    return row


def _told(children: list[Child]) -> int:
    return sum(len(child.told) for child in children)


def _write_many(place: Place, name: str, count: int, tell: Tell) -> None:
    with owner(place) as session:
        for number in range(count):
            draft = Draft(domain=DOMAIN, type="fact", title=f"{name} {number}", summary=f"by {name}", body=BODY)
            written = session.write(draft)
            tell([written.id, written.version, written.digest])


def _watch(children: list[Child], ends: Callable[[Child], bool], heard: Callable[[], None]) -> None:
    """Take in what the children tell until all have ended; kill the one that ``ends`` says."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.pipe, selectors.EVENT_READ, child)
        killed = False
        until = time.monotonic() + _LONGEST
        while selector.get_map():
            if time.monotonic() > until:
                for key in list(selector.get_map().values()):
                    key.data.end()
                until += _LONGEST
            for key, _ in selector.select(1.0):
                told: Child = key.data
                selector.unregister(told.pipe)
                if told.take():
                    selector.register(told.pipe, selectors.EVENT_READ, told)
                if not killed and told.status is None and ends(told):
                    os.kill(told.pid, signal.SIGKILL)
                    killed = True
            heard()


def reader_of_a_rebuild(ground: Ground, *, quick: bool, heard: Heard) -> Row:
    """Search again and again in one process while another rebuilds the index: every answer is the full one."""
    row = Row("situation", "a reader during reindexes", "none")
    place = ground.place()
    child = finished(partial(_more, place))
    right = child.told[-1]
    rebuilds = 2 if quick else _REBUILDS
    children = [start(partial(_rebuild, place, rebuilds)), start(partial(_search_on, place, right))]
    _watch(
        children,
        lambda child: child is children[1] and children[0].status is not None,
        lambda: heard(len(children[0].told), rebuilds),
    )
    for count, answer in children[1].told if children[1].failure is None else []:
        row.tried += count
        row.whole += count if answer == len(right) else 0
        row.wrong += 0 if answer == len(right) else count
        row.note("a search", [] if answer == len(right) else [f"{answer} of {len(right)} were found"])
    for each in children:
        if each.failure is not None:
            row.wrong += 1
            row.note(row.subject, [each.failure])
    _judged(row, place, ANYTHING, {}, "afterwards", told=False)
    heard(rebuilds, rebuilds)
    place.remove()
    return row


def _more(place: Place, tell: Tell) -> None:
    with owner(place) as session:
        drafts = [
            Draft(domain=DOMAIN, type="fact", title=f"Sought {number}", summary="sought", body=BODY)
            for number in range(_MORE)
        ]
        session.write_many(drafts)
        tell(sorted(hit.id for hit in session.search("sought", limit=100).hits))


def _rebuild(place: Place, rebuilds: int, tell: Tell) -> None:
    with owner(place) as session:
        for number in range(rebuilds):
            session.reindex(domain=DOMAIN)
            tell(number)


def _search_on(place: Place, right: list[str], tell: Tell) -> None:
    """Search until this process is killed; tell of each answer, those that are right together."""
    with owner(place) as session:
        while True:
            found = sorted(hit.id for hit in session.search("sought", limit=100).hits)
            tell([1, len(found) if found == right or len(found) != len(right) else -1])


SITUATIONS: Final[Mapping[str, Callable[..., Row]]] = {
    "a read-only root": read_only,
    "an unreadable directory": unreadable,
    "a limit on the size of files": file_size,
    "a clock that jumped back": clock_back,
    "two writers in one domain": two_writers,
    "a reader during reindexes": reader_of_a_rebuild,
}
