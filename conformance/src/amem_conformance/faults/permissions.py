"""A root that this user may not write, and directories and files that it may not read: modes, not injected errors.

The superuser may do everything, so that under root the child that is judged becomes another user first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from amem_conformance.faults.actions import ACTIONS
from amem_conformance.faults.children import Tell, finished
from amem_conformance.faults.crashing import Heard
from amem_conformance.faults.failing import untrue
from amem_conformance.faults.ground import DOMAIN, Ground, Place, owner
from amem_conformance.faults.judging import ANYTHING, HALF, LOST, WHOLE, Action, described, judge
from amem_conformance.faults.reading import QUESTIONS, Question, as_json
from amem_conformance.faults.rows import Row

_NOBODY: Final = 65534
_ASKED: Final = tuple(question for question in QUESTIONS if not question.checks)
_TRIED: Final = ACTIONS[:6]
_AFTERWARDS: Final = replace(
    ANYTHING, name="afterwards", touches=frozenset[str]().union(*(each.touches for each in _TRIED))
)
_DIRECTORIES: Final = (f"record/{DOMAIN}", "record", f"record/{DOMAIN}/.history", "state/log", "state")

Close = tuple[str, Callable[[Place], None]]


def read_only(ground: Ground, *, quick: bool, heard: Heard) -> Row:
    """Ask and write in a root in which nothing may be written."""
    del quick
    return _tried(ground, "a read-only root", [(_EVERYTHING, lambda place: _modes(place.root, 0o500, 0o400))], heard)


def unreadable(ground: Ground, *, quick: bool, heard: Heard) -> Row:
    """Ask and write where a directory may not be entered, or the files in it may not be read."""
    closings: list[Close] = []
    for name in _DIRECTORIES[: 2 if quick else None]:
        closings.append((name, partial(_shut, name)))
        closings.append((f"files below {name}", partial(_shut_files, name)))
    return _tried(ground, "an unreadable directory", closings, heard)


def _tried(ground: Ground, name: str, closings: list[Close], heard: Heard) -> Row:
    superuser = os.geteuid() == 0
    row = Row("situation", name, "modes, as another user" if superuser else "modes")
    for done, close in enumerate(closings):
        heard(done, len(closings))
        place = ground.place()
        if not all(os.path.isdir(os.path.join(place.root, each)) for each in _DIRECTORIES):
            row.note(name, ["not tried: these backends do not keep the record and the log in the root"])
        else:
            if superuser:
                os.chmod(ground.scratch, 0o711)  # noqa: S103  (the other user has to pass; the names are random)
                _give(place.directory, _NOBODY)
            child = finished(partial(_ask_and_write, place, close))
            for told in child.told[:-1] if child.failure else child.told:
                _take(row, close[0], told)
            if child.failure is not None:
                row.wrong += 1
                row.note(name, [child.failure])
        place.remove()
    heard(len(closings), len(closings))
    return row


def _take(row: Row, closed: str, told: dict[str, Any]) -> None:
    """Take in what one question or action was answered, or how the place was judged."""
    row.note(f"{told['at']}, {closed} closed", told["problems"])
    if told["came"] in {LOST, HALF} or told["at"] == _AFTERWARDS.name:
        row.lost += told["came"] == LOST
        row.half += told["came"] == HALF
        return
    row.tried += 1
    row.whole += told["came"] == WHOLE
    row.refused += told["came"] == _REFUSED
    row.wrong += told["came"] == _WRONG


_EVERYTHING: Final = "everything"
_REFUSED: Final = "refused"
_WRONG: Final = "wrong"


def _ask_and_write(place: Place, close: Close, tell: Tell) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    right = {question.name: _asked(place, question) for question in _ASKED}
    modes = {path: os.stat(path).st_mode & 0o7777 for path in _everything(place.root)}
    before = _bytes(place.root)
    close[1](place)
    for question in _ASKED:
        tell(_outcome(question.name, partial(_faults, place, question, right[question.name])))
    promised: dict[str, list[Any]] = {}
    for action in _TRIED:
        tell(_outcome(action.name, partial(_acted, place, action, promised)))
    # From the top down, so that what lies below can be reached.
    for path, mode in sorted(modes.items()):
        os.chmod(path, mode)
    # What is not closed may be written, and a write that was cut short there leaves what the next one completes.
    written = _changed(before, _bytes(place.root)) if close[0] == _EVERYTHING else []
    problems = [f"{path} was changed" for path in written]
    came, found = judge(place, _AFTERWARDS, promised, told=bool(promised))
    problems += found
    tell({"at": _AFTERWARDS.name, "came": came if came == LOST or not problems else HALF, "problems": problems})


def _asked(place: Place, question: Question) -> Any:
    with owner(place) as session:
        return as_json(question.ask(session, place))


def _faults(place: Place, question: Question, right: Any) -> list[str]:
    return question.faults(_asked(place, question), right)


def _acted(place: Place, action: Action, promised: dict[str, list[Any]]) -> list[str]:
    with owner(place) as session:
        promised.update(action.act(session, place))
    return []


def _outcome(name: str, attempt: Callable[[], list[str]]) -> dict[str, Any]:
    try:
        problems = attempt()
    except Exception as error:  # noqa: BLE001  (which kind it is, is the question)
        wrong = untrue(error)
        return {"at": name, "came": _WRONG if wrong else _REFUSED, "problems": [described(error)] if wrong else []}
    return {"at": name, "came": _WRONG if problems else WHOLE, "problems": problems}


def _changed(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """Return what of the record and the log is otherwise; what is watched and what can be rebuilt may be."""
    paths = sorted({*before, *after})
    return [
        path for path in paths if before.get(path) != after.get(path) and path.startswith(("record/", "state/log/"))
    ]


def _shut(name: str, place: Place) -> None:
    os.chmod(os.path.join(place.root, name), 0)


def _shut_files(name: str, place: Place) -> None:
    _modes(os.path.join(place.root, name), 0o700, 0)


def _give(directory: str, user: int) -> None:
    for path in _everything(directory):
        os.chown(path, user, user, follow_symlinks=False)


def _modes(directory: str, directories: int, files: int) -> None:
    for path in reversed(_everything(directory)):
        os.chmod(path, directories if os.path.isdir(path) else files)


def _everything(directory: str) -> list[str]:
    """Return the directory and every path below it, what is above first."""
    found = [directory]
    for above, directories, names in os.walk(directory):
        found += [os.path.join(above, name) for name in (*directories, *names)]
    return sorted(found)


def _bytes(root: str) -> dict[str, bytes]:
    kept: dict[str, bytes] = {}
    for path in _everything(root):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                kept[os.path.relpath(path, root)] = file.read()
    return kept
