"""Step 6: a bundle leaves, lands, and is refused when something is wrong with it."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

from amem_core.domain.entries import Draft
from amem_core.domain.labels import Label, Tier
from amem_core.errors import ConflictError, InvalidError
from amem_core.memory import Memory
from amem_launcher.commands.demo.evidence import Travelled
from amem_launcher.commands.demo.stage import DOMAIN, StepError, hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from amem_core.errors import AmemError
    from amem_core.session import Session
    from amem_launcher.commands.demo.stage import Stage

_LINE = re.compile(r"path: (entries/[\w-]+\.md)")


def travel(stage: Stage) -> Travelled:
    """Export, import into another root, and try what must be refused."""
    bundle = stage.beside("bundle")
    with Memory.open(stage.root) as memory, memory.session(author="owner") as owner:
        secret = Draft(
            domain=DOMAIN, type="fact", title="Stays here", summary="Too high to leave.", label=Label.confidential
        )
        held_back = owner.write(secret).id
        done = owner.export(DOMAIN, bundle, max_label=Label.internal)
    hold(done.entries and done.withheld, f"exported {done.entries} entries and withheld {done.withheld}")
    hold(not os.path.exists(os.path.join(bundle, "entries", f"{held_back}.md")), f"{held_back} left above max_label")
    elsewhere = stage.beside("elsewhere")
    Memory.init(elsewhere, domain=DOMAIN)
    with Memory.open(elsewhere) as memory, memory.session(author="owner") as owner:
        landed = owner.import_bundle(bundle)
        tiers = {owner.get(id).entry.trust_tier for id in landed.ids}
        hold(len(landed.ids) == done.entries, f"{done.entries} entries left and {len(landed.ids)} landed")
        hold(tiers == {Tier.raw}, f"what was imported landed at {', '.join(map(str, sorted(tiers)))}")
        refusals = {"the same entries again": _refused(owner, bundle, ConflictError)}
    fresh = stage.beside("fresh")
    Memory.init(fresh, domain=DOMAIN)
    with Memory.open(fresh) as memory, memory.session(author="owner") as owner:
        for wrong, spoil in _SPOILS.items():
            spoiled = shutil.copytree(bundle, stage.beside(f"spoiled-{spoil.__name__}"))
            spoil(spoiled)
            refusals[wrong] = _refused(owner, spoiled, InvalidError)
    written = [name for _, _, names in os.walk(os.path.join(fresh, "record")) for name in names]
    hold(not written, f"refused bundles left {', '.join(written)}")
    return Travelled(
        entries=done.entries,
        highest_label=str(done.highest_label),
        withheld=done.withheld,
        tier=str(Tier.raw),
        refusals=refusals,
    )


def _refused(owner: Session, bundle: str, kind: type[AmemError]) -> str:
    """Return why the bundle was refused.

    Raises:
        StepError: it was taken in.
    """
    try:
        taken = owner.import_bundle(bundle)
    except kind as error:
        return str(error).replace(bundle, os.path.basename(bundle))
    message = f"{os.path.basename(bundle)} was taken in, with {len(taken.ids)} entries"
    raise StepError(message)


def _edit_manifest(bundle: str, edit: Callable[[str], str]) -> None:
    path = os.path.join(bundle, "manifest.yaml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    edited = edit(text)
    hold(edited != text, "the manifest does not have the form that it is spoiled in")
    with open(path, "w", encoding="utf-8") as file:
        file.write(edited)


def tampered(bundle: str) -> None:
    """Change the text of one entry."""
    name = min(os.listdir(os.path.join(bundle, "entries")))
    with open(os.path.join(bundle, "entries", name), "a", encoding="utf-8") as file:
        file.write("One word more.\n")


def escaping(bundle: str) -> None:
    """Let a line name a file outside the bundle."""
    _edit_manifest(bundle, lambda text: _LINE.sub("path: ../../root/grants.toml", text, count=1))


def raised(bundle: str) -> None:
    """Say that nothing above public may be in it."""
    _edit_manifest(bundle, lambda text: re.sub(r"^max_label: .*$", "max_label: public", text, flags=re.MULTILINE))


_SPOILS = {
    "a text that was changed": tampered,
    "a path that leaves the directory": escaping,
    "a label above max_label": raised,
}
