"""The manifest of a bundle: what it holds, line by line (normative: ``docs/format/bundle.md``).

The manifest is checked against itself here; against the files of the bundle and against the record
it is checked by who imports it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from amem_core.domain.labels import Label
from amem_core.domain.names import check_domain, check_entry_id
from amem_core.errors import FormatError, InvalidError, UnknownFormatError
from amem_core.format.checks import clean_text
from amem_core.format.entry import decode
from amem_core.format.frontmatter import List, Map, Node, Scalar, Verbatim, fail, load, render_fields, scan
from amem_core.format.times import parse_instant, render_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

FORMAT = "durable-memory/bundle/0"
"""The form of bundle that is written, and the only one that is read."""
MANIFEST = "manifest.yaml"
"""The manifest's name inside the bundle's directory."""
MAX_MANIFEST = 64 * 1024 * 1024
"""How many bytes a manifest may have."""

_FAMILY = "durable-memory/bundle/"
_HEAD = ("format", "domain", "created", "by", "highest_label", "max_label", "entries")
_LINE = ("id", "version", "path", "digest", "classification")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
# A line as it is written here: read without a YAML library, which takes a hundred times as long.
_WRITTEN = re.compile(
    r"  - \{id: (mem-[a-z0-9-]+), version: ([0-9]+), path: (entries/mem-[a-z0-9-]+\.md),"
    r' digest: "([0-9a-f]+)", classification: ([a-z]+)\}'
)
_ENTRIES = "\nentries:\n"
_T = TypeVar("_T")
_Words = tuple[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One file of a bundle. ``digest`` is the SHA-256 of its bytes."""

    id: str
    version: int
    digest: str
    classification: Label

    @property
    def path(self) -> str:
        """Return where the file lies below the bundle's directory."""
        return f"entries/{self.id}.md"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says of itself.

    ``max_label`` is what the bundle was allowed to hold, ``highest_label`` the highest that it does
    hold; for a bundle without entries that is ``public``. ``entries`` keep the manifest's order.
    """

    domain: str
    created: datetime
    by: str
    highest_label: Label
    max_label: Label
    entries: tuple[ManifestEntry, ...]


def render_manifest(manifest: Manifest) -> bytes:
    """Return the manifest's bytes; ``parse_manifest`` of them gives an equal manifest.

    Raises:
        InvalidError: it breaks a rule of the form, such as an id that stands twice.
    """
    head = render_fields(
        [
            ("format", FORMAT),
            ("domain", check_domain(manifest.domain)),
            ("created", Verbatim(render_utc(manifest.created))),
            ("by", clean_text(manifest.by, "by")),
            ("highest_label", str(manifest.highest_label)),
            ("max_label", str(manifest.max_label)),
        ]
    )
    # The digest is quoted always: 64 digits may all be decimal ones.
    lines = [
        f"  - {{id: {entry.id}, version: {entry.version}, path: {entry.path},"
        f' digest: "{entry.digest}", classification: {entry.classification}}}\n'
        for entry in manifest.entries
    ]
    data = (head + ("entries:\n" + "".join(lines) if lines else "entries: []\n")).encode()
    # The rules stand in one place, which is the reader's.
    try:
        same = parse_manifest(data) == manifest
    except FormatError as exc:
        message = f"this manifest breaks a rule of its form: {exc}"
        raise InvalidError(message, hint=exc.hint) from exc
    if not same:
        message = "this manifest cannot be read back as it is"
        raise InvalidError(message, hint="write ids and digests in lower case, and 'by' on one line")
    return data


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest that the bytes hold, checked against itself.

    Every path is ``entries/<id>.md``, no id stands twice in whatever case, every label is within
    ``max_label``, and ``highest_label`` is the highest of them.

    Raises:
        UnknownFormatError: it was written in a newer form.
        FormatError: it breaks a rule; ``path``, ``line`` and ``reason`` in the context.
    """
    try:
        if len(data) > MAX_MANIFEST:
            fail(1, f"the manifest is larger than {MAX_MANIFEST // 1024 // 1024} MiB", "export in several bundles")
        text = decode(data)
        fields, written = _read(text)
        return _manifest(fields, written)
    except UnknownFormatError:
        raise
    except FormatError as exc:
        raise FormatError(f"{MANIFEST}, {exc}", hint=exc.hint, path=MANIFEST, **exc.context) from exc


def _read(text: str) -> tuple[dict[str, Node], list[_Words] | None]:
    """Return the fields, and the words of the entries' lines when they are in the form that is written here."""
    head, found, tail = text.partition(_ENTRIES)
    if found and tail.endswith("\n"):
        fields = scan(head + "\n", 1)
        first = head.count("\n") + 3
        matches = [_WRITTEN.fullmatch(line) for line in tail[:-1].split("\n")]
        if fields is not None and "entries" not in fields and None not in matches:
            return fields, [(first + n, match.groups()) for n, match in enumerate(matches) if match]
    return load(text, 1), None


def _manifest(fields: dict[str, Node], written: list[_Words] | None) -> Manifest:
    _check_format(fields)
    _check_names(fields, _HEAD, optional=frozenset({"entries"}) if written is not None else frozenset(), line=1)
    max_label = _field(fields, "max_label", Label.parse)
    highest = _field(fields, "highest_label", Label.parse)
    entries: dict[str, ManifestEntry] = {}
    for line, words in _lines(fields["entries"]) if written is None else written:
        entry = _entry(line, words)
        if entry.id in entries:
            fail(line, f"the id {entry.id} stands twice", "export the bundle again")
        if entry.classification > max_label:
            fail(line, f"{entry.id} is {entry.classification}, above max_label, which is {max_label}")
        entries[entry.id] = entry
    actual = max((entry.classification for entry in entries.values()), default=Label.public)
    if highest != actual:
        fail(fields["highest_label"].line, f"highest_label is {highest} and the highest of the entries is {actual}")
    return Manifest(
        domain=_field(fields, "domain", check_domain),
        created=_field(fields, "created", parse_instant),
        by=_field(fields, "by", _by),
        highest_label=highest,
        max_label=max_label,
        entries=tuple(entries.values()),
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


def _lines(node: Node) -> Iterator[_Words]:
    if not isinstance(node, List):
        fail(node.line, "entries is not a list", "write 'entries: []' for none")
    for item in node.items:
        if not isinstance(item, Map):
            fail(item.line, "an entry's line is not a mapping", f"its fields are {', '.join(_LINE)}")
        _check_names(item.fields, _LINE, line=item.line)
        yield item.line, tuple(_word(item.fields[name], name) for name in _LINE)


def _word(node: Node, name: str) -> str:
    if not isinstance(node, Scalar):
        fail(node.line, f"{name} is not one word", "export the bundle again")
    return node.text


def _entry(line: int, words: tuple[str, ...]) -> ManifestEntry:
    id, version, path, digest, classification = words
    if not _VERSION.fullmatch(version):
        fail(line, f"version {version[:60]!r} is not an integer from 1", "export the bundle again")
    if not _DIGEST.fullmatch(digest):
        fail(line, "digest is not 64 lower-case hexadecimal digits", "export the bundle again")
    entry = ManifestEntry(
        _read_word(line, "id", check_entry_id, id),
        int(version),
        digest,
        _read_word(line, "classification", Label.parse, classification),
    )
    if path != entry.path:
        fail(
            line, f"path is {path[:100]!r}, and must be {entry.path!r}", "a bundle's files lie in entries/ by their id"
        )
    return entry


def _read_word(line: int, name: str, reader: Callable[[str], _T], word: str) -> _T:
    try:
        return reader(word)
    except InvalidError as exc:
        fail(line, f"{name}: {exc}", exc.hint, exc)


def _by(text: str) -> str:
    return clean_text(text, "by")
