"""Laying a domain's record beside its log, entry by entry in the order of their ids.

One walk serves whoever has to know where the two differ: the rebuild of the index, the check of the
log and fsck. It holds one entry's text at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from amem_core.domain.entries import Document
from amem_core.domain.labels import Label, Status
from amem_core.errors import CorruptionError, FormatError, NotFoundError, UnavailableError
from amem_core.ports.store import Unreadable
from amem_core.services.accounts import Account, named_by
from amem_core.services.receipts import receipt_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from amem_core.domain.entries import Entry
    from amem_core.errors import AmemError
    from amem_core.runtime import Runtime
    from amem_core.services.accounts import Told

# A writer at work moves what is looked at; it cannot go on doing that to one entry.
_MOST_LOOKS = 5


class Verdict(StrEnum):
    """How an entry's file stands to the log."""

    level = "level"  # it is the version that the log names last
    made = "made"  # the log knows nothing of it: a person made it
    edited = "edited"  # the log knows the entry and not these bytes: a person changed it
    displaced = "displaced"  # it is a version that the log names, and not the last
    missing = "missing"  # the log names it, and there is no file
    returned = "returned"  # it was erased, and there is a text again
    unfinished = "unfinished"  # a write or an erasure is under way, or was cut short
    broken = "broken"  # it is no entry
    unreadable = "unreadable"  # it is there and cannot be read now


@dataclass(frozen=True, slots=True)
class Subject:
    """One entry beside its account. ``digest`` and ``entry`` are of the current file, where it can be read."""

    id: str
    verdict: Verdict
    account: Account
    digest: str = ""
    entry: Entry | None = None
    fault: AmemError | None = None


@dataclass(frozen=True, slots=True)
class Earlier:
    """A version that is kept behind the current one."""

    number: int
    digest: str
    data: bytes


class Survey:
    """One domain's record beside what its log told.

    ``live`` says that others may be writing meanwhile: what seems to differ is then looked at again.
    ``parsing`` is False for a caller that needs digests alone: what cannot be parsed is then not seen.
    """

    def __init__(self, runtime: Runtime, told: Told, *, live: bool, parsing: bool = True) -> None:
        self.runtime = runtime
        self.domain = told.domain
        self.told = told
        self.now = runtime.clock.now()
        # Of a log that is damaged nobody can tell what came since.
        self._live = live and told.breach is None
        self._parsing = parsing
        self._label: Label | None = None

    def subjects(self) -> Iterator[Subject | Unreadable]:
        """Yield every entry that the record holds or the log names, by id, and what is in the record and is no entry.

        Raises:
            UnavailableError: the record cannot be listed.
        """
        accounts = self.told.accounts()
        waiting = next(accounts, None)
        for stored in self.runtime.store.entries(self.domain):
            if isinstance(stored, Unreadable):
                yield stored
                continue
            while waiting is not None and waiting.id < stored.id:
                yield from self._judged_or_none(waiting)
                waiting = next(accounts, None)
            if waiting is not None and waiting.id == stored.id:
                yield from self._judged_or_none(waiting)
                waiting = next(accounts, None)
            else:
                yield from self._judged_or_none(Account.of(stored.id, []))
        while waiting is not None:
            yield from self._judged_or_none(waiting)
            waiting = next(accounts, None)

    def judge(self, account: Account) -> Subject | None:
        """Look at one entry now; None when neither the record nor the log has it."""
        subject = self._look(account)
        if not self._live:
            return subject
        for _ in range(_MOST_LOOKS):
            if subject is None or subject.verdict in {Verdict.level, Verdict.unfinished}:
                break
            before = subject
            subject = self._look(self._brought_up(subject.account))
            if subject is not None and _seen(subject) == _seen(before):
                break
        return subject

    def earlier(self, subject: Subject) -> Iterator[Earlier]:
        """Yield the versions behind the current one, ascending, one text at a time.

        Raises:
            UnavailableError: one cannot be read.
        """
        from amem_core.format.entry import digest

        store, id = self.runtime.store, subject.id
        for number in store.earlier_versions(self.domain, id):
            try:
                data = store.read(self.domain, id, number)
            except NotFoundError:
                # Erased since it was listed.
                continue
            yield Earlier(number, digest(data), data)

    def served(self, subject: Subject, broken: list[FormatError] | None = None) -> Iterator[Document]:
        """Yield what the index keeps of an entry, oldest version first: nothing of one that is not served.

        A version behind the current one is in it when the log knows its bytes, and since when. What
        cannot be parsed is put into ``broken``.
        """
        entry, since = subject.entry, subject.account.learned(subject.digest)
        if subject.verdict not in {Verdict.level, Verdict.displaced} or entry is None or since is None:
            return
        for version in self.earlier(subject):
            learned = subject.account.learned(version.digest)
            if learned is None or version.number >= entry.version:
                continue
            try:
                kept = self.parse(subject.id, version.data, learned)
            except FormatError as exc:
                exc.context["number"] = version.number
                if broken is not None:
                    broken.append(exc)
                continue
            # A hand may have set back the number in a file; what counts is the one that it is kept under.
            yield Document(replace(kept, version=version.number), version.digest, learned)
        yield Document(replace(entry, classification=shown_label(subject, entry)), subject.digest, since)

    def parse(self, id: str, data: bytes, time: datetime) -> Entry:
        """Return the entry that the bytes hold; ``time`` stands in for what a file made by hand does not say.

        Raises:
            FormatError: they hold none.
        """
        from amem_core.format.entry import parse

        return parse(data, domain=self.domain, id=id, fallback_time=time, fallback_label=self._fallback())

    def _judged_or_none(self, account: Account) -> Iterator[Subject]:
        subject = self.judge(account)
        if subject is not None:
            yield subject

    def _look(self, account: Account) -> Subject | None:
        from amem_core.format.entry import digest

        id = account.id
        try:
            data = self.runtime.store.read(self.domain, id)
        except NotFoundError:
            if account.last is None:
                return None
            return Subject(id, Verdict.unfinished if self._is_staged(account) else Verdict.missing, account)
        except UnavailableError as exc:
            return Subject(id, Verdict.unreadable, account, fault=exc)
        key = digest(data)
        entry = None
        if self._parsing:
            try:
                entry = self.parse(id, data, account.learned(key) or self.now)
            except FormatError as exc:
                return Subject(id, Verdict.broken, account, key, fault=exc)
        return Subject(id, self._verdict(account, key, entry), account, key, entry)

    def _verdict(self, account: Account, key: str, entry: Entry | None) -> Verdict:
        last = account.last
        level = last is not None and key == last.digest
        if level and (account.erased or not self._parsing):
            return Verdict.level
        erased, finished = self._erasure(account, entry)
        if erased:
            return Verdict.returned if finished else Verdict.unfinished
        if level:
            return Verdict.level
        if last is None:
            return Verdict.made
        if self._is_staged(account):
            return Verdict.unfinished
        return Verdict.edited if account.learned(key) is None else Verdict.displaced

    def _erasure(self, account: Account, entry: Entry | None) -> tuple[bool, bool]:
        """Return whether an entry was erased here, and whether that was finished. The stub itself is no text."""
        if entry is not None and entry.status is Status.erased:
            return False, True
        try:
            receipt = receipt_of(self.runtime, self.domain, account.id)
        except CorruptionError:
            # What cannot be read may be the receipt of this very text.
            return True, True
        if receipt is None or receipt.get("origin"):
            return account.erased, True
        return account.erased or bool(receipt["finished"]), bool(receipt["finished"])

    def _is_staged(self, account: Account) -> bool:
        """Return whether the version that the log names last is durable and not published yet."""
        last = account.last
        if last is None:
            return False
        key = (account.id, last.version, last.digest)
        return any((item.id, item.version, item.digest) == key for item in self.runtime.store.staged(self.domain))

    def _brought_up(self, account: Account) -> Account:
        """Return the account with what the log has told of the entry since it was read."""
        log = self.runtime.log
        if log.head(self.domain) == self.told.head:
            return account
        newer = [
            named_by(event) for event in log.read(self.domain, after=self.told.head) if event.subject == account.id
        ]
        known = max((named.seq for named in account.named), default=0)
        added = [named for named in newer if named is not None and named.seq > known]
        return Account.of(account.id, [*account.named, *added]) if added else account

    def _fallback(self) -> Label:
        """Return the label that the policy gives to what the owner writes with no label, for files that name none."""
        if self._label is None:
            facts = {
                "author": "owner",
                "kind": "owner",
                "destination": None,
                "domains": None,
                "label": "public",
                "ceiling": "restricted",
            }
            resource = {"domain": self.domain, "type": "reference", "label": None, "replaces": None}
            # Asked for a check and not for a deed, so that it is no decision to be logged.
            decision = self.runtime.policy.decide("write", {"session": facts, "resource": resource})
            self._label = Label.parse(decision.obligations.get("label", "restricted"))
        return self._label


def shown_label(subject: Subject, entry: Entry) -> Label:
    """Return the label under which an entry is served: an old text that was put back has the one that it had since."""
    logged = subject.account.label
    return entry.classification if logged is None else max(entry.classification, logged)


def _seen(subject: Subject) -> tuple[Verdict, str, int]:
    return subject.verdict, subject.digest, len(subject.account.named)
