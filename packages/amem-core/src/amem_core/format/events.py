"""The bytes of an event: one canonical JSON line, chained to the line before it.

The form is normative in ``docs/format/log.md``. This module is on the path of every command, so it
imports nothing but json and re, and hashlib when there is something to hash.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard

from amem_core.domain.events import Event, NewEvent
from amem_core.errors import CorruptionError, InvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping

GENESIS = "0" * 64
"""The chain before the first event of a domain."""

_MEMBERS = frozenset({"actor", "chain", "data", "domain", "kind", "seq", "subject", "time"})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
_CHAIN = re.compile(r"[0-9a-f]{64}")
# One encoder for all: json.dumps with these settings would build one per call.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_PLAIN = json.JSONEncoder(ensure_ascii=False)


def encode_event(event: Event) -> bytes:
    """Return the event as one line of ASCII with its newline.

    Raises:
        InvalidError: the time is naive, or ``data`` holds what is no JSON value.
    """
    members = _members(event.domain, event.seq, event)
    members["chain"] = event.chain
    return _canonical(members) + b"\n"


def decode_event(line: bytes, *, domain: str) -> Event:
    """Return the event of one line of the log of ``domain``; the final newline may be absent.

    The chain's form is checked, not whether it follows from the line before: see ``chain``.

    Raises:
        CorruptionError: the line is no event of this domain; ``reason`` in the context says why.
    """
    body = line.removesuffix(b"\n")
    try:
        members = _DECODER.decode(body.decode("ascii"))
    except UnicodeDecodeError as exc:
        _corrupt(domain, f"a byte outside ASCII at offset {exc.start}", exc)
    except (ValueError, RecursionError) as exc:
        _corrupt(domain, f"not JSON: {exc}", exc)
    if not _is_object(members):
        _corrupt(domain, "not a JSON object")
    if members.keys() != _MEMBERS:
        _corrupt(domain, _member_fault(members))
    event = _event(members, domain)
    # Escapes are rare, and the only way in which one text has several spellings or is no text at all.
    if b"\\u" in body and not _is_canonical(event, body):
        _corrupt(domain, "not in the canonical form")
    return event


def chain(previous: str, *, domain: str, seq: int, event: NewEvent | Event) -> str:
    """Return the chain of ``event`` at ``seq``: SHA-256 over ``previous`` and the canonical bytes, in hexadecimal.

    A reader verifies an event with ``event.chain == chain(previous, domain=domain, seq=event.seq, event=event)``.

    Raises:
        InvalidError: the time is naive, or ``data`` holds what is no JSON value.
    """
    from hashlib import sha256  # noqa: PLC0415  (see above)

    return sha256(previous.encode("ascii") + _canonical(_members(domain, seq, event))).hexdigest()


def link(previous: str, *, domain: str, seq: int, event: NewEvent) -> Event:
    """Return ``event`` in its place behind the event whose chain is ``previous`` (``GENESIS`` for none).

    Raises:
        InvalidError: the time is naive, or ``data`` holds what is no JSON value.
    """
    return Event(
        domain=domain,
        seq=seq,
        kind=event.kind,
        subject=event.subject,
        actor=event.actor,
        time=event.time,
        data=event.data,
        chain=chain(previous, domain=domain, seq=seq, event=event),
    )


def _members(domain: str, seq: int, event: NewEvent | Event) -> dict[str, Any]:
    return {
        "actor": event.actor,
        "data": dict(event.data),
        "domain": domain,
        "kind": event.kind,
        "seq": seq,
        "subject": event.subject,
        "time": _render_time(event.time),
    }


def _canonical(members: Mapping[str, Any]) -> bytes:
    try:
        text = _ENCODER.encode(members)
        if "\\ud" in text:
            _PLAIN.encode(members).encode("utf-8")
    except UnicodeEncodeError as exc:
        message = "an event holds a lone surrogate, which is no text"
        raise InvalidError(message, hint="repair the value before it is logged") from exc
    except (TypeError, ValueError, RecursionError) as exc:
        message = f"an event's data must be JSON values with string keys: {exc}"
        raise InvalidError(message, hint="log ids, digests and figures only") from exc
    return text.encode("ascii")


def _render_time(time: datetime) -> str:
    zone = time.tzinfo
    if zone is not UTC:
        if zone is None:
            message = f"an event's time must carry its zone, {time.isoformat()} does not"
            raise InvalidError(message, hint="give the time in UTC")
        try:
            time = time.astimezone(UTC)
        except OverflowError as exc:
            message = f"an event's time must lie in the years 1 to 9999 in UTC, {time.isoformat()} does not"
            raise InvalidError(message, hint="give a time that UTC can express") from exc
    return time.isoformat(timespec="microseconds")[:-6] + "Z"


def _event(members: dict[str, Any], domain: str) -> Event:
    seq, time, data, link_ = members["seq"], members["time"], members["data"], members["chain"]
    kind, subject, actor = members["kind"], members["subject"], members["actor"]
    if members["domain"] != domain:
        _corrupt(domain, f"it belongs to the domain {members['domain']!r}")
    if type(seq) is not int or seq < 1:
        _corrupt(domain, "seq is not an integer from 1")
    if not (type(kind) is str and type(subject) is str and type(actor) is str):
        _corrupt(domain, "kind, subject and actor must be strings")
    if not _is_object(data):
        _corrupt(domain, "data is not an object")
    if type(link_) is not str or not _CHAIN.fullmatch(link_):
        _corrupt(domain, "chain is not 64 lower-case hexadecimal digits")
    if type(time) is not str or not _TIME.fullmatch(time):
        _corrupt(domain, "time is not RFC 3339 in UTC with six digits of fraction and Z")
    try:
        moment = datetime.fromisoformat(time)
    except ValueError as exc:
        _corrupt(domain, f"time does not exist: {exc}", exc)
    return Event(domain, seq, kind, subject, actor, moment, data, link_)


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return type(value) is dict


def _is_canonical(event: Event, body: bytes) -> bool:
    try:
        return encode_event(event) == body + b"\n"
    except InvalidError:
        return False


def _member_fault(members: dict[str, Any]) -> str:
    missing = sorted(_MEMBERS - members.keys())
    unknown = sorted(members.keys() - _MEMBERS)
    return f"missing members: {missing}" if missing else f"unknown members: {unknown}"


def _reject_constant(word: str) -> NoReturn:
    message = f"{word} is no JSON value"
    raise ValueError(message)


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        message = f"{digits} is out of range"
        raise ValueError(message)
    return number


_DECODER = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_finite)


def _corrupt(domain: str, reason: str, cause: BaseException | None = None) -> NoReturn:
    message = f"a line of the log of {domain!r} is no event: {reason}"
    hint = "the line is left as it is; run 'amem doctor' to see where, and restore it from a copy"
    raise CorruptionError(message, hint=hint, domain=domain, reason=reason) from cause
