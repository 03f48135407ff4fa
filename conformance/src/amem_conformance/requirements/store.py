"""What is demanded of the Store port."""

from __future__ import annotations

from typing import Final

from amem_conformance.manifest import Requirement

_PROCESSES: Final = frozenset({"multi_process"})


def _demand(id: str, source: str, behaviour: str, needs: frozenset[str] = frozenset()) -> Requirement:
    return Requirement(id=f"store:{id}", source=source, behaviour=behaviour, needs=needs)


REQUIREMENTS: list[Requirement] = [
    _demand("stage:invisible", "port: stage", "What is staged is neither read nor listed."),
    _demand(
        "stage:listed", "port: staged", "What is staged is listed by id and version and read, also after reopening."
    ),
    _demand("stage:again", "port: stage", "Staging a version again replaces what was staged for it."),
    _demand("stage:discard", "port: discard", "Discarding removes the staged version and nothing else."),
    _demand("stage:missing", "port: read_staged", "Reading what is not staged is an error that says so."),
    _demand("stage:digest", "contract 4", "Bytes that do not have the digest that is given are refused."),
    _demand("publish:bytes", "contract 4", "What is read is byte for byte what was written, whatever it is."),
    _demand("publish:current", "port: publish", "A published version is current and no longer staged."),
    _demand("publish:durable", "contract 5: Store 1", "A published version is there after reopening."),
    _demand("read:own-writes", "contract 5: Store 3", "A write is read at once by the same and by another instance."),
    _demand("publish:group", "port: publish", "Versions that are published together all become current."),
    _demand("publish:staged-bytes", "port: publish", "The staged bytes are published, not those of the call."),
    _demand("publish:not-staged", "port: publish", "Publishing what is not staged under that digest is refused."),
    _demand(
        "publish:compare-and-swap",
        "contract 5: Store 4",
        "A version that replaces other than the current bytes is refused, stays staged and changes nothing.",
    ),
    _demand("publish:immutable", "contract 5: Store 2", "A number that was written takes no other bytes."),
    _demand("publish:repeat", "port: publish", "Publishing what is current changes nothing."),
    _demand("publish:resume", "contract 5: Store 1", "A group that was cut short is completed by publishing it again."),
    _demand("names:refused", "case: names-that-are-paths", "A domain or id that could be a path is refused."),
    _demand("list:complete", "contract 5: Store 5", "A listing holds every entry of its domain once."),
    _demand("list:order", "port: entries", "A listing is sorted by id."),
    _demand("list:empty", "port: entries", "A domain that was never written lists nothing."),
    _demand("list:stamp", "port: Stored", "A stamp changes when the stored bytes change, and only then."),
    _demand("list:domains", "port: domains", "The domains are those with entries, and are kept apart."),
    _demand("list:unreadable", "contract 4", "What is no entry's file is listed as such and stops nothing."),
    _demand("hand:edit", "contract 4", "An edit by hand is served, shows in the stamp and is not overwritten unseen."),
    _demand("hand:made", "contract 4", "A file made by hand without a number is kept as version 1."),
    _demand("read:unknown", "port: read", "An unknown domain, entry or version is not found."),
    _demand("read:current-by-number", "port: read", "The current version is not found by its number."),
    _demand("versions:kept", "contract 5: Store 6", "Every earlier version is readable under its number, in order."),
    _demand("versions:unknown", "port: earlier_versions", "An unknown id has no earlier versions."),
    _demand("erase:gone", "contract 5: Store 7", "An erasure leaves the stub and no byte of any version or staging."),
    _demand("erase:only", "contract 5: Store 7", "An erasure leaves other entries and domains alone."),
    _demand("erase:repeat", "port: erase", "Repeating an erasure changes nothing."),
    _demand("erase:single", "port: erase", "An entry of one version is erased too."),
    _demand("erase:after", "contract 5: Store 7", "What was erased does not come back by repeating its publish."),
    _demand("mark:kept", "port: save_mark", "Marks are kept by kind and key, sorted, and replaced whole."),
    _demand("mark:asked", "port: marks_of", "Marks are found by their keys, and outlive an erasure."),
    _demand("mark:names", "case: names-that-are-paths", "A key that is no value's is refused for a tombstone."),
    _demand("threads:foreign", "port: Store", "An instance serves threads that did not open it."),
    _demand("threads:writers", "port: Store", "Threads that write different domains lose nothing."),
    _demand("threads:readers", "contract 5: Store 1", "A reader beside a writer sees whole versions only."),
    _demand("close:idempotent", "port: close", "Closing twice is closing once."),
    _demand("process:visible", "port: multi_process", "What another process wrote is read at once.", _PROCESSES),
    _demand(
        "process:killed",
        "contract 5: Store 1",
        "A writer that is killed loses nothing that was acknowledged and leaves nothing half done.",
        _PROCESSES,
    ),
    _demand("model:reference", "port: Store", "Any sequence of calls is answered as the reference answers it."),
    _demand("shape:signatures", "port: Store", "Every method takes the port's parameters under the port's names."),
]
