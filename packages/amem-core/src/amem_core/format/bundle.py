"""The manifest of a bundle: what it holds, line by line (normative: ``docs/format/bundle.md``).

The manifest is checked against itself here; against the files of the bundle and against the record
it is checked by who imports it. It is written and read a line at a time: a bundle may hold more
entries than a list of them has room.
"""

from __future__ import annotations

import hashlib
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from amem_core.domain.labels import Label
from amem_core.domain.names import check_domain, check_entry_id
from amem_core.errors import FormatError, InvalidError, UnknownFormatError
from amem_core.format.checks import clean_text
from amem_core.format.entry import decode
from amem_core.format.frontmatter import List, Map, Node, Scalar, Verbatim, fail, load, render_fields, scan
from amem_core.format.times import parse_instant, render_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from datetime import datetime
    from typing import BinaryIO

FORMAT = "durable-memory/bundle/0"
"""The form of bundle that is written, and the only one that is read."""
MANIFEST = "manifest.yaml"
"""The manifest's name inside the bundle's directory."""
MAX_MANIFEST = 64 * 1024 * 1024
"""How many bytes a manifest may have."""
MAX_OTHER = 1024 * 1024
"""How many bytes it may have when its lines are not in the form that is written here: it is then read at once."""
KINDS = ("receipts", "tombstones", "promotions")
"""The files of marks that a bundle may have beside its entries, in the order in which a manifest names them."""

_FAMILY = "durable-memory/bundle/"
_HEAD = ("format", "domain", "created", "by", "highest_label", "max_label", "marks", "entries")
_LISTS = frozenset({"marks", "entries"})
_LINE = ("id", "version", "path", "digest", "classification")
_MARKS_LINE = ("kind", "count", "path", "digest", "classification")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
# Lines as they are written here: read without a YAML library, which takes a hundred times as long.
_WRITTEN = re.compile(
    rb"  - \{id: (mem-[a-z0-9-]+), version: ([0-9]+), path: (entries/mem-[a-z0-9-]+\.md),"
    rb' digest: "([0-9a-f]+)", classification: ([a-z]+)\}\n'
)
_WRITTEN_MARKS = re.compile(
    rb"  - \{kind: ([a-z]+), count: ([0-9]+), path: ([a-z]+\.yaml),"
    rb' digest: "([0-9a-f]+)", classification: ([a-z]+)\}\n'
)
_ENTRIES = b"entries:\n"
_NO_ENTRIES = b"entries: []\n"
_MARKS = b"marks:\n"
# No line of the form that is written here is longer, and no head has more lines.
_LONGEST = 64 * 1024
_MOST_HEAD = 32
_T = TypeVar("_T")
_Words = tuple[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One entry's file. ``digest`` is the SHA-256 of its bytes."""

    id: str
    version: int
    digest: str
    classification: Label

    @property
    def path(self) -> str:
        """Return where the file lies below the bundle's directory."""
        return f"entries/{self.id}.md"


@dataclass(frozen=True, slots=True)
class MarksFile:
    """One file of marks: ``count`` lines of one of ``KINDS``, ``classification`` the highest label of them."""

    kind: str
    count: int
    digest: str
    classification: Label

    @property
    def path(self) -> str:
        """Return where the file lies below the bundle's directory."""
        return f"{self.kind}.yaml"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says of itself.

    ``max_label`` is what the bundle was allowed to hold, ``highest_label`` the highest that it does
    hold, marks included; for an empty bundle that is ``public``. ``entries`` keep the manifest's order.
    """

    domain: str
    created: datetime
    by: str
    highest_label: Label
    max_label: Label
    entries: tuple[ManifestEntry, ...] = ()
    marks: tuple[MarksFile, ...] = ()


def render_manifest(manifest: Manifest) -> bytes:
    """Return the manifest's bytes; ``parse_manifest`` of them gives an equal manifest.

    Raises:
        InvalidError: it breaks a rule of the form, such as an id that stands twice.
    """
    head = render_head(manifest, with_entries=bool(manifest.entries))
    data = "".join([head, *map(render_line, manifest.entries)]).encode()
    # The rules stand in one place, which is the reader's.
    try:
        same = parse_manifest(data) == manifest
    except FormatError as exc:
        raise _unfit(exc) from exc
    if not same:
        message = "this manifest cannot be read back as it is"
        raise InvalidError(message, hint="write ids and digests in lower case, and 'by' on one line")
    return data


def render_head(head: Manifest, *, with_entries: bool) -> str:
    """Return the text of a manifest up to its entries' lines, of which there are some ``with_entries``.

    Whoever writes those behind it has the result read with ``check_manifest``, where the rules are.
    """
    fields = render_fields(
        [
            ("format", FORMAT),
            ("domain", check_domain(head.domain)),
            ("created", Verbatim(render_utc(head.created))),
            ("by", clean_text(head.by, "by")),
            ("highest_label", str(head.highest_label)),
            ("max_label", str(head.max_label)),
        ]
    )
    marks = [
        f"  - {{kind: {file.kind}, count: {file.count}, path: {file.path},"
        f' digest: "{file.digest}", classification: {file.classification}}}\n'
        for file in head.marks
    ]
    heading = _MARKS.decode() if marks else ""
    return f"{fields}{heading}{''.join(marks)}{(_ENTRIES if with_entries else _NO_ENTRIES).decode()}"


def render_line(entry: ManifestEntry) -> str:
    """Return the manifest's line for one entry."""
    # The digest is quoted always: 64 digits may all be decimal ones.
    return (
        f"  - {{id: {entry.id}, version: {entry.version}, path: {entry.path},"
        f' digest: "{entry.digest}", classification: {entry.classification}}}\n'
    )


def check_manifest(file: BinaryIO) -> None:
    """Read a manifest that was just written.

    Raises:
        InvalidError: it breaks a rule of the form.
    """
    try:
        for _ in ManifestReader(file).entries():
            pass
    except FormatError as exc:
        raise _unfit(exc) from exc


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest that the bytes hold, checked against itself.

    Every path is ``entries/<id>.md``, no id stands twice in whatever case, every label is within
    ``max_label``, and ``highest_label`` is the highest of them and of the marks.

    Raises:
        UnknownFormatError: it was written in a newer form.
        FormatError: it breaks a rule; ``path``, ``line`` and ``reason`` in the context.
    """
    reader = ManifestReader(io.BytesIO(data))
    return replace(reader.head, entries=tuple(reader.entries()))


class ManifestReader:
    """Reads a manifest from a file that can be read twice: its head at once, its entries as they are asked for.

    Raises:
        UnknownFormatError: it was written in a newer form.
        FormatError: it breaks a rule; ``path``, ``line`` and ``reason`` in the context.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._so_far = hashlib.sha256()
        self.digest = ""
        """The SHA-256 of the whole manifest, in hexadecimal."""
        self.labels: dict[str, Label] = {}
        """The label of every entry that the last run of ``entries`` has yielded, by id."""
        with _named():
            self._form = self._open()
            self.head = _head(self._form)

    @property
    def so_far(self) -> str:
        """The SHA-256 of what the current run of ``entries`` has read: a second run can be held to the first."""
        return self._so_far.hexdigest()

    def entries(self) -> Iterator[ManifestEntry]:
        """Yield the entries in the manifest's order; each call begins anew.

        Raises:
            FormatError: one breaks a rule, or the labels do not come to ``highest_label``, which is known at the end.
        """
        self.labels = labels = {}
        head = self.head
        highest = max((file.classification for file in head.marks), default=Label.public)
        with _named():
            for line, words in self._lines():
                entry = _entry(line, words)
                if entry.id in labels:
                    fail(line, f"the id {entry.id} stands twice", "export the bundle again")
                _check_within(line, entry.id, entry.classification, head.max_label)
                labels[entry.id] = entry.classification
                highest = max(highest, entry.classification)
                yield entry
            if highest != head.highest_label:
                reason = f"highest_label is {head.highest_label} and the highest of what it holds is {highest}"
                fail(self._form.fields["highest_label"].line, reason)

    def _open(self) -> _Form:
        size = self._file.seek(0, io.SEEK_END)
        if size > MAX_MANIFEST:
            fail(1, f"the manifest is larger than {MAX_MANIFEST // 1024 // 1024} MiB", "export in several bundles")
        form = _written_head(self._raw())
        if form is not None and self._is_written(form):
            return form
        if size > MAX_OTHER:
            _check_newer(self._raw())
            hint = "give each entry a line in the form of bundle 2.6, or export in several bundles"
            fail(1, f"the manifest is larger than {MAX_OTHER // 1024} KiB and has no line of its own for each", hint)
        self._file.seek(0)
        data = self._file.read()
        self.digest = hashlib.sha256(data).hexdigest()
        return _other_form(decode(data))

    def _is_written(self, form: _Form) -> bool:
        """Return whether every line behind the head is an entry's as it is written here; takes the whole's digest."""
        whole = hashlib.sha256()
        lines = 0
        for lines, line in enumerate(self._raw(), 1):
            whole.update(line)
            if lines > form.first and (form.empty or _WRITTEN.fullmatch(line) is None):
                return False
        self.digest = whole.hexdigest()
        # A heading with nothing below it is no list.
        return form.empty or lines > form.first

    def _lines(self) -> Iterator[_Words]:
        if self._form.items is not None:
            yield from self._form.items
            return
        self._so_far = hashlib.sha256()
        for number, line in enumerate(self._raw(), 1):
            self._so_far.update(line)
            if number <= self._form.first:
                continue
            match = _WRITTEN.fullmatch(line)
            if match is None:
                fail(number, "the line was changed while the manifest was read", "import it again")
            yield number, _ascii(match)

    def _raw(self) -> Iterator[bytes]:
        self._file.seek(0)
        while line := self._file.readline(_LONGEST):
            yield line


class _Form(NamedTuple):
    """A manifest's fields, the words of its marks, and where its entries are.

    Those are behind the first ``first`` lines, one a line as they are written here, or in ``items``.
    """

    fields: dict[str, Node]
    marks: list[_Words]
    first: int = 0
    empty: bool = False
    items: list[_Words] | None = None


def _written_head(lines: Iterator[bytes]) -> _Form | None:
    """Return the form of a manifest by the lines before its entries, None when they are not as they are written here."""
    head: list[bytes] = []
    for line in lines:
        if line in {_ENTRIES, _NO_ENTRIES}:
            break
        head.append(line)
        if len(head) > _MOST_HEAD:
            return None
    else:
        return None
    at = head.index(_MARKS) if _MARKS in head else len(head)
    matches = [_WRITTEN_MARKS.fullmatch(each) for each in head[at + 1 :]]
    try:
        fields = scan(b"".join(head[:at]).decode(), 1)
    except UnicodeDecodeError:
        return None
    if fields is None or None in matches or (at < len(head) and not matches) or not fields.keys().isdisjoint(_LISTS):
        return None
    marks = [(at + 2 + n, _ascii(match)) for n, match in enumerate(matches) if match]
    return _Form(fields, marks, len(head) + 1, line == _NO_ENTRIES)


def _other_form(text: str) -> _Form:
    fields = load(text, 1)
    _check_format(fields)
    _check_names(fields, _HEAD, optional=frozenset({"marks"}), line=1)
    marks = _words(fields["marks"], "marks", _MARKS_LINE) if "marks" in fields else ()
    return _Form(fields, list(marks), items=list(_words(fields["entries"], "entries", _LINE)))


def _head(form: _Form) -> Manifest:
    fields = form.fields
    _check_format(fields)
    _check_names(fields, _HEAD, optional=_LISTS, line=1)
    max_label = _field(fields, "max_label", Label.parse)
    highest = _field(fields, "highest_label", Label.parse)
    marks: list[MarksFile] = []
    for line, words in form.marks:
        file = _marks_file(line, words)
        if any(file.kind == other.kind for other in marks):
            fail(line, f"the file of {file.kind} stands twice", "export the bundle again")
        _check_within(line, file.path, file.classification, max_label)
        marks.append(file)
    return Manifest(
        domain=_field(fields, "domain", check_domain),
        created=_field(fields, "created", parse_instant),
        by=_field(fields, "by", _by),
        highest_label=highest,
        max_label=max_label,
        marks=tuple(marks),
    )


def _check_format(fields: dict[str, Node]) -> None:
    node = fields.get("format")
    form = node.text if isinstance(node, Scalar) else None
    if form == FORMAT:
        return
    if form is not None and form.startswith(_FAMILY):
        message = f"{MANIFEST} has the format {form!r}, and this amem reads {FORMAT!r}"
        raise UnknownFormatError(message, hint="import it with a newer amem; nothing was changed", path=MANIFEST)
    fail(node.line if node else 1, "this is not the manifest of a bundle", f"it needs a line 'format: {FORMAT}'")


def _check_newer(lines: Iterator[bytes]) -> None:
    """Refuse a newer form for what it is, where only its first lines can be looked at."""
    for _, line in zip(range(_MOST_HEAD), lines, strict=False):
        if line.startswith(b"format:"):
            _check_format(scan(line.decode("utf-8", "replace"), 1) or {})


def _check_names(
    fields: dict[str, Node], names: tuple[str, ...], *, line: int, optional: frozenset[str] = frozenset()
) -> None:
    for name, node in fields.items():
        if name not in names:
            fail(node.line, f"{name!r} is no field here", f"the fields are {', '.join(names)}")
    for name in names:
        if name not in fields and name not in optional:
            fail(line, f"there is no {name}", "export the bundle again")


def _field(fields: dict[str, Node], name: str, reader: Callable[[str], _T]) -> _T:
    node = fields[name]
    return _read_word(node.line, name, reader, _word(node, name))


def _words(node: Node, name: str, parts: tuple[str, ...]) -> Iterator[_Words]:
    if not isinstance(node, List):
        fail(node.line, f"{name} is not a list", f"write '{name}: []' for none")
    for item in node.items:
        if not isinstance(item, Map):
            fail(item.line, f"an item of {name} is not a mapping", f"its fields are {', '.join(parts)}")
        _check_names(item.fields, parts, line=item.line)
        yield item.line, tuple(_word(item.fields[part], part) for part in parts)


def _word(node: Node, name: str) -> str:
    if not isinstance(node, Scalar):
        fail(node.line, f"{name} is not one word", "export the bundle again")
    return node.text


def _entry(line: int, words: tuple[str, ...]) -> ManifestEntry:
    id, version, path, digest, classification = words
    _check_number(line, "version", version)
    _check_digest(line, digest)
    entry = ManifestEntry(
        _read_word(line, "id", check_entry_id, id),
        int(version),
        digest,
        _read_word(line, "classification", Label.parse, classification),
    )
    _check_path(line, path, entry.path, "a bundle's files lie in entries/ by their id")
    return entry


def _marks_file(line: int, words: tuple[str, ...]) -> MarksFile:
    kind, count, path, digest, classification = words
    if kind not in KINDS:
        fail(line, f"{kind[:60]!r} is no kind of marks", f"the kinds are {', '.join(KINDS)}")
    _check_number(line, "count", count)
    _check_digest(line, digest)
    file = MarksFile(kind, int(count), digest, _read_word(line, "classification", Label.parse, classification))
    _check_path(line, path, file.path, "a bundle's marks lie beside its manifest by their kind")
    return file


def _check_number(line: int, name: str, word: str) -> None:
    if not _NUMBER.fullmatch(word):
        fail(line, f"{name} {word[:60]!r} is not an integer from 1", "export the bundle again")


def _check_digest(line: int, word: str) -> None:
    if not _DIGEST.fullmatch(word):
        fail(line, "digest is not 64 lower-case hexadecimal digits", "export the bundle again")


def _check_path(line: int, path: str, right: str, rule: str) -> None:
    if path != right:
        fail(line, f"path is {path[:100]!r}, and must be {right!r}", rule)


def _check_within(line: int, what: str, label: Label, highest: Label) -> None:
    if label > highest:
        fail(line, f"{what} is {label}, above max_label, which is {highest}")


def _read_word(line: int, name: str, reader: Callable[[str], _T], word: str) -> _T:
    try:
        return reader(word)
    except InvalidError as exc:
        fail(line, f"{name}: {exc}", exc.hint, exc)


def _by(text: str) -> str:
    return clean_text(text, "by")


def _ascii(match: re.Match[bytes]) -> tuple[str, ...]:
    return tuple(word.decode("ascii") for word in match.groups())


@contextmanager
def _named() -> Generator[None]:
    """Name the manifest in what is said of its lines."""
    try:
        yield
    except UnknownFormatError:
        raise
    except FormatError as exc:
        raise FormatError(f"{MANIFEST}, {exc}", hint=exc.hint, path=MANIFEST, **exc.context) from exc


def _unfit(exc: FormatError) -> InvalidError:
    return InvalidError(f"this manifest breaks a rule of its form: {exc}", hint=exc.hint)
