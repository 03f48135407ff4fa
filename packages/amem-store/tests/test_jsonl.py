"""What the log on disk promises beyond the port: its lines, its waits for the disk, its repairs and refusals."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amem_core.domain.events import Event, NewEvent
from amem_core.errors import CorruptionError, UnavailableError
from amem_core.format.events import GENESIS, encode_event, link
from amem_store import _disk, _lines
from amem_store.jsonl import JsonlLog

START = datetime(2026, 1, 1, tzinfo=UTC)


def new(number: int, **data: object) -> NewEvent:
    return NewEvent("entry.written", f"mem-{number}", "owner", START + timedelta(seconds=number), data)


def append(log: JsonlLog, *numbers: int) -> list[Event]:
    with log.writer("d") as writer:
        return writer.append([new(number) for number in numbers])


def file_of(root: Path) -> Path:
    return root / "state/log/d.jsonl"


def seqs(log: JsonlLog, after: int = 0) -> list[int]:
    return [event.seq for event in log.read("d", after)]


class Syncs:
    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, fd: int) -> None:
        self.names.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))


def test_an_append_waits_for_the_disk_once_however_many_events_it_holds(tmp_path: Path) -> None:
    syncs = Syncs()
    log = JsonlLog(str(tmp_path), fdatasync=syncs)
    append(log, 1)
    assert syncs.names == ["d.jsonl", "log"], "a log's first event makes the file's name durable too"
    syncs.names.clear()
    append(log, 2)
    append(log, *range(3, 103))
    assert syncs.names == ["d.jsonl", "d.jsonl"]


def test_an_append_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = JsonlLog(str(tmp_path))
    append(log, 1)
    writes: list[int] = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: writes.append(len(data)) or real(fd, data))
    append(log, *range(2, 60))
    assert len(writes) == 1


def test_lines_are_canonical_and_only_the_last_of_a_group_begins_without_a_space(tmp_path: Path) -> None:
    log = JsonlLog(str(tmp_path))
    events = append(log, 1) + append(log, 2, 3, 4)
    lines = [encode_event(event) for event in events]
    assert file_of(tmp_path).read_bytes() == lines[0] + b" " + lines[1] + b" " + lines[2] + lines[3]
    assert file_of(tmp_path).stat().st_mode & 0o777 == 0o600


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    previous=st.binary(min_size=32, max_size=32).map(bytes.hex),
    actor=TEXT | st.just('"chain":"",'),
    subject=TEXT,
    data=st.dictionaries(TEXT | st.just("chain"), TEXT | st.integers() | st.just('"chain":"",')),
)
def test_a_placed_line_is_what_link_and_encode_make(
    previous: str, actor: str, subject: str, data: dict[str, object]
) -> None:
    event = NewEvent("entry.written", subject, actor, START, data)
    linked = link(previous, domain="d", seq=7, event=event)
    assert _lines.place(previous, "d", 7, event) == (linked, encode_event(linked))


def test_a_log_without_its_last_newline_loses_no_event_and_joins_no_two(tmp_path: Path) -> None:
    events = append(JsonlLog(str(tmp_path)), 1) + append(JsonlLog(str(tmp_path)), 2)
    path = file_of(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    log = JsonlLog(str(tmp_path))
    events += append(log, 3)
    assert list(log.read("d")) == events
    assert path.read_bytes().count(b"\n") == 3


@given(cut=st.data(), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_whatever_is_cut_off_the_end_the_whole_groups_before_it_stay(
    tmp_path_factory: pytest.TempPathFactory, cut: st.DataObject, sizes: list[int]
) -> None:
    root = tmp_path_factory.mktemp("root")
    log = JsonlLog(str(root), fdatasync=lambda fd: None)
    ends = [(0, 0)]
    for size in sizes:
        events = append(log, *range(size))
        ends.append((file_of(root).stat().st_size, events[-1].seq))
    size = cut.draw(st.integers(0, ends[-1][0]))
    whole = file_of(root).read_bytes()
    file_of(root).write_bytes(whole[:size])
    kept = max(seq for end, seq in ends if end <= size)
    again = JsonlLog(str(root), fdatasync=lambda fd: None)
    assert again.head("d") == kept
    assert seqs(again) == list(range(1, kept + 1))
    repaired = max(seq for end, seq in ends if end <= size or (end == size + 1))
    with again.writer("d") as writer:
        assert writer.head == repaired
    assert file_of(root).read_bytes() == whole[: next(end for end, seq in ends if seq == repaired)]


def damage(path: Path, number: int, how: str) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    if how == "garbage":
        lines[number - 1] = b"\x00" * 40 + b"\n"
    elif how == "removed":
        del lines[number - 1]
    elif how == "joined":
        lines[number - 1] = lines[number - 1][:-1]
    elif how == "twice":
        lines.insert(number, lines[number - 1])
    elif how == "changed":
        lines[number - 1] = lines[number - 1].replace(b'"owner"', b'"owneR"')
    else:
        lines[number - 1], lines[number] = lines[number], lines[number - 1]
    path.write_bytes(b"".join(lines))


@pytest.mark.parametrize("how", ["garbage", "removed", "joined", "twice", "changed", "swapped"])
@pytest.mark.parametrize("number", [1, 2, 150, 297])
def test_damage_inside_names_its_line_and_a_reader_gets_past_it(tmp_path: Path, how: str, number: int) -> None:
    log = JsonlLog(str(tmp_path))
    append(log, *range(100))
    append(log, *range(100, 200))
    append(log, *range(200, 299))
    append(log, 299)
    path = file_of(tmp_path)
    damage(path, number, how)
    before = path.read_bytes()
    log = JsonlLog(str(tmp_path))
    seen: list[int] = []
    alarms: list[CorruptionError] = []
    after: object = 0
    while isinstance(after, int):
        try:
            seen.extend(event.seq for event in log.read("d", after))
            break
        except CorruptionError as error:
            alarms.append(error)
            assert len(alarms) < 10
            after = error.context["resume_after"]
    assert str(path) in str(alarms[0])
    assert "line" in str(alarms[0])
    lost = {
        "garbage": {number},
        "removed": {number},
        "joined": {number, number + 1},
        "twice": set(),
        "changed": {number},
        "swapped": {number, number + 1},
    }[how]
    assert set(range(1, 301)) - set(seen) <= lost
    assert seen == sorted(set(seen))
    assert path.read_bytes() == before


@pytest.mark.parametrize("spare", [0, 10, 400])
@pytest.mark.parametrize("numbers", [[2], [2, 3, 4]])
def test_a_full_disk_appends_nothing_and_the_writer_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int, numbers: Sequence[int]
) -> None:
    log = JsonlLog(str(tmp_path))
    append(log, 1)
    before = file_of(tmp_path).read_bytes()
    left = [spare]
    real = os.write

    def write(fd: int, data: bytes) -> int:
        taken = min(len(data), left[0])
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= taken
        return real(fd, data[:taken])

    with log.writer("d") as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            if spare < 400 or len(numbers) > 1:
                with pytest.raises(UnavailableError, match="No space") as caught:
                    writer.append([new(number) for number in numbers])
                assert "room" in caught.value.hint
                assert file_of(tmp_path).read_bytes() == before
        assert [event.seq for event in writer.append([new(9)])] == [2]
    assert seqs(log) == [1, 2]


def test_a_limit_of_the_system_itself_appends_nothing(tmp_path: Path) -> None:
    log = JsonlLog(str(tmp_path))
    append(log, 1)
    size = file_of(tmp_path).stat().st_size
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, old[1]))
        with pytest.raises(UnavailableError):
            append(log, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert file_of(tmp_path).stat().st_size == size
    assert append(log, 2)[0].seq == 2


def test_an_append_that_cannot_be_made_durable_is_taken_back(tmp_path: Path) -> None:
    failing = [False]

    def sync(fd: int) -> None:
        if failing[0]:
            failing[0] = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(fd)

    log = JsonlLog(str(tmp_path), fdatasync=sync)
    append(log, 1)
    with log.writer("d") as writer:
        failing[0] = True
        with pytest.raises(UnavailableError, match="Input/output"):
            writer.append([new(2)])
        assert writer.head == 1
        assert log.head("d") == 1
        assert writer.append([new(3)])[0].seq == 2


def test_a_writer_that_cannot_take_back_what_failed_appends_no_more(tmp_path: Path) -> None:
    failing = [False]

    def sync(fd: int) -> None:
        if failing[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    log = JsonlLog(str(tmp_path), fdatasync=sync)
    append(log, 1)
    with log.writer("d") as writer:
        failing[0] = True
        with pytest.raises(UnavailableError):
            writer.append([new(2)])
        failing[0] = False
        with pytest.raises(ValueError, match="taken back"):
            writer.append([new(3)])
    assert append(log, 4)[0].seq in {2, 3}


def test_an_append_that_is_durable_is_acknowledged_whatever_can_still_be_asked_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = JsonlLog(str(tmp_path))

    def broken(fd: int) -> os.stat_result:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with log.writer("d") as writer:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fstat", broken)
            assert [event.seq for event in writer.append([new(1)])] == [1]
        assert [event.seq for event in writer.append([new(2)])] == [2]
    assert [event.seq for event in append(log, 3)] == [3]
    assert seqs(log) == [1, 2, 3]


def test_an_interrupt_in_an_append_leaves_no_event_that_the_writer_does_not_know(tmp_path: Path) -> None:
    interrupted = [False]

    def sync(fd: int) -> None:
        if interrupted[0]:
            interrupted[0] = False
            raise KeyboardInterrupt

    log = JsonlLog(str(tmp_path), fdatasync=sync)
    append(log, 1)
    with log.writer("d") as writer:
        interrupted[0] = True
        with pytest.raises(KeyboardInterrupt):
            writer.append([new(2)])
        assert writer.append([new(3)])[0].seq == 2
    assert [event.subject for event in log.read("d")] == ["mem-1", "mem-3"]


def test_a_log_that_cannot_be_read_is_an_error_and_never_empty(tmp_path: Path) -> None:
    log = JsonlLog(str(tmp_path))
    file_of(tmp_path).mkdir()
    for call in (lambda: log.head("d"), lambda: list(log.read("d")), lambda: append(log, 1)):
        with pytest.raises(UnavailableError) as caught:
            call()
        assert str(file_of(tmp_path)) in str(caught.value)
    assert log.domains() == ["d"]
    file_of(tmp_path).rmdir()
    file_of(tmp_path).parent.rmdir()
    for call in (lambda: log.head("d"), lambda: list(log.read("d")), log.domains):
        with pytest.raises(UnavailableError):
            call()


def test_a_symbolic_link_in_a_logs_place_is_not_followed(tmp_path: Path) -> None:
    log = JsonlLog(str(tmp_path))
    outside = tmp_path / "outside"
    outside.write_bytes(b"")
    file_of(tmp_path).symlink_to(outside)
    for call in (lambda: log.head("d"), lambda: list(log.read("d")), lambda: append(log, 1)):
        with pytest.raises(UnavailableError):
            call()
    assert outside.read_bytes() == b""


def test_a_head_and_a_following_read_look_at_the_end_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = JsonlLog(str(tmp_path))
    append(log, *range(5000))
    with monkeypatch.context() as patch:
        read: list[int] = []
        real = os.pread
        patch.setattr(os, "pread", lambda fd, size, at: read.append(size) or real(fd, size, at))
        fresh = JsonlLog(str(tmp_path))
        assert fresh.head("d") == 5000
        assert sum(read) < 10_000
        read.clear()
        assert fresh.head("d") == 5000
        assert read == []
    append(log, 1)
    with monkeypatch.context() as patch:
        decoded: list[int] = []
        real_parse = _lines.parse
        patch.setattr(_lines, "parse", lambda line, domain: decoded.append(1) or real_parse(line, domain))
        assert seqs(JsonlLog(str(tmp_path)), 2500)[0] == 2501
        decoded.clear()
        following = JsonlLog(str(tmp_path))
        assert seqs(following, 5000) == [5001]
        assert len(decoded) < 200
        append(log, 2, 3)
        decoded.clear()
        assert seqs(following, 5001) == [5002, 5003]
        assert len(decoded) <= 6


@given(st.lists(st.binary(max_size=50).map(lambda b: b.replace(b"\n", b"")), max_size=30), st.binary(max_size=20))
def test_lines_read_backward_are_the_lines_read_forward(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], torn: bytes
) -> None:
    torn = torn.replace(b"\n", b"")
    path = tmp_path_factory.mktemp("lines") / "file"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + torn)
    fd = os.open(path, _disk.READ)
    try:
        size = path.stat().st_size
        forward = list(_lines.forward(fd, 0, size))
        backward = list(_lines.backward(fd, size))
    finally:
        os.close(fd)
    assert [line for _, line in forward] == lines
    assert backward[0] == (size - len(torn), torn)
    assert backward[1:] == forward[::-1]


def test_the_chain_of_a_log_begins_at_the_genesis(tmp_path: Path) -> None:
    [event] = append(JsonlLog(str(tmp_path)), 1)
    assert event == link(GENESIS, domain="d", seq=1, event=new(1))
