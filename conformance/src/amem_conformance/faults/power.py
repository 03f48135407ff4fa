"""The power fails at each step of a write: the worst that the disk may hold then is opened and judged.

What is modelled is the record and the log, see ``disks``. SQLite's files are left to SQLite: each
image is tried with them as they were before the write and as they are at that step, which are the
two ends of what may have reached the disk of them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import partial
from typing import Any, Final

from amem_conformance.faults.children import Tell, finished
from amem_conformance.faults.crashing import Heard, spread
from amem_conformance.faults.disks import Disk
from amem_conformance.faults.ground import Ground, Place, opened
from amem_conformance.faults.judging import HALF, LOST, Action, judge
from amem_conformance.faults.rows import Row
from amem_conformance.faults.steps import Step, install, watching

POWER: Final = "power loss"
_WATCHED: Final = os.path.join("state", "decisions.jsonl")

Image = dict[str, bytes | None]


class _Filming:
    """Follows every step on a model of the disk, and takes pictures of what may be left after each."""

    def __init__(self, root: str) -> None:
        self.told = False
        self.pictures: list[tuple[str, bool, Image]] = []
        self._disk = Disk.of(root)
        self._root = root
        self._before = _databases(root)
        self._seen: set[tuple[str, bool]] = set()
        self._count = 0

    def before(self, step: Step) -> None:
        """Nothing."""

    def after(self, step: Step) -> None:
        """Follow the step and take the pictures."""
        if not step.changes:
            return
        self._disk.done(step)
        self._count += 1
        self.shoot(f"after step {self._count}, {step}")

    def shoot(self, when: str) -> None:
        """Take the pictures that have not been taken."""
        for databases in (self._before, _databases(self._root)):
            for name, image in self._disk.images():
                kept = {path: data for path, data in image.items() if not _is_database(path)}
                key = _digest({**kept, **databases}), self.told
                if key not in self._seen:
                    self._seen.add(key)
                    self.pictures.append((f"{when}: {name}", self.told, {**kept, **databases}))


def _digest(image: Image) -> str:
    told = hashlib.sha256()
    for path, data in sorted(image.items()):
        # What is only watched says nothing of what is remembered.
        if path != _WATCHED:
            told.update(f"{path}\0{'-' if data is None else hashlib.sha256(data).hexdigest()}\0".encode())
    return told.hexdigest()


def failed_power(ground: Ground, action: Action, *, most: int | None = None, heard: Heard) -> Row:
    """Judge every image that the power's failing at a step of ``action`` may leave, or ``most`` of them."""
    install()
    row = Row("power", action.name, POWER)
    place = ground.place()
    child = finished(partial(_film, place, action, most))
    if child.failure is not None:
        message = f"{action.name} does not succeed where nothing fails: {child.failure}"
        raise AssertionError(message)
    taken: list[dict[str, Any]] = [told for told in child.told if "image" in told]
    promised = next(told["promised"] for told in child.told if "promised" in told)
    for done, picture in enumerate(taken):
        heard(done, len(taken))
        shutil.rmtree(place.root)
        os.rename(os.path.join(place.directory, picture["image"]), place.root)
        judged = finished(partial(_judge, place, action, promised, picture))
        outcome, problems = judged.told[-1] if judged.failure is None else (HALF, [judged.failure])
        row.take(outcome, told=picture["told"], where=picture["name"], problems=problems)
    heard(len(taken), len(taken))
    place.remove()
    return row


def _film(place: Place, action: Action, most: int | None, tell: Tell) -> None:
    action.prepare(place)
    filming = _Filming(place.root)
    with watching(filming, place.directory), opened(place) as memory, memory.session(author="owner") as session:
        promised = action.act(session, place)
        filming.told = True
        filming.shoot("when it was acknowledged")
    tell({"promised": promised})
    for number, (name, told, image) in enumerate(spread(filming.pictures, most)):
        directory = f"image-{number}"
        _develop(image, os.path.join(place.directory, directory))
        tell({"image": directory, "name": name, "told": told})


def _develop(image: Image, to: str) -> None:
    """Write an image to a directory, which may become a root."""
    os.mkdir(to, 0o700)
    for path, data in sorted(image.items()):
        if data is None:
            os.mkdir(os.path.join(to, path), 0o700)
    for path, data in image.items():
        if data is not None:
            with open(os.path.join(to, path), "wb") as file:
                file.write(data)


def _judge(place: Place, action: Action, promised: Any, picture: dict[str, Any], tell: Tell) -> None:
    told = bool(picture["told"])
    outcome, problems = judge(place, action, promised if told else {}, told=told)
    tell([outcome if not problems or outcome == LOST else HALF, problems])


def _is_database(path: str) -> bool:
    return path.startswith("state" + os.sep) and ".sqlite" in path


def _databases(root: str) -> Image:
    state = os.path.join(root, "state")
    names = [os.path.join("state", name) for name in (os.listdir(state) if os.path.isdir(state) else ())]
    found: Image = {}
    for path in filter(_is_database, names):
        with open(os.path.join(root, path), "rb") as file:
            found[path] = file.read()
    return found
