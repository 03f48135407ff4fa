"""Rules for names that become paths, keys or partitions. Checked once, before they touch one."""

from __future__ import annotations

import re
from functools import lru_cache

from amem_core.errors import InvalidError

ENTRY_PREFIX = "mem-"
# Compiled by ``re`` on first use: most commands check few names.
_DOMAIN = r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?"
_ENTRY = r"mem-[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?"
_AUTHOR = r"(?:session|tap):[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_TYPE = r"[a-z][a-z0-9_-]{0,39}"
_VALUE_KEY = r"[0-9a-f]{64}"
_MARKS = ("erasures", "tombstones", "promotions")
# Names that Windows reserves for devices, whatever extension follows.
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))})
# One write checks the same few names at every gate that it passes.
_REMEMBERED = 256


def check_domain(name: object) -> str:
    """Return ``name`` if it may name a domain.

    A domain is 1 to 64 lower-case ASCII letters, digits, ``-`` and ``_``, beginning and ending
    with a letter or digit, and no device name of Windows.

    Raises:
        InvalidError: it may not.
    """
    if isinstance(name, str) and _is_domain(name):
        return name
    message = f"{name!r} cannot name a domain"
    raise InvalidError(
        message,
        hint="a domain is 1 to 64 lower-case letters, digits, '-' or '_', begins and ends with a letter or digit,"
        " and is no device name such as 'con'",
    )


def check_entry_id(name: object) -> str:
    """Return ``name`` in lower case if it may be the id of an entry.

    Ids are case-insensitive and written in lower case: ``mem-`` and then 1 to 60 letters, digits
    and ``-``, so that ids made elsewhere are accepted too.

    Raises:
        InvalidError: it may not.
    """
    if isinstance(name, str):
        lowered = name.lower()
        if name.isascii() and _is_entry_id(lowered):
            return lowered
    message = f"{name!r} is not the id of an entry"
    raise InvalidError(message, hint="an id is 'mem-' and up to 60 letters, digits and '-'; copy it from a search")


def check_mark_key(kind: str, key: object) -> str:
    """Return ``key`` if it may be the key of a mark of ``kind``: a value's key for a tombstone, else an entry's id.

    Raises:
        InvalidError: it may not, or there is no such kind of mark.
    """
    if kind not in _MARKS:
        message = f"{kind!r} is no kind of mark"
        raise InvalidError(message, hint=f"one of: {', '.join(_MARKS)}")
    if kind != "tombstones":
        return check_entry_id(key)
    if isinstance(key, str) and re.fullmatch(_VALUE_KEY, key):
        return key
    message = f"{key!r} is not the key of a value"
    raise InvalidError(message, hint="a value's key is 64 hexadecimal digits in lower case")


def check_author(name: object) -> str:
    """Return ``name`` if it may be an author: ``owner``, ``librarian``, ``session:<id>`` or ``tap:<name>``.

    Raises:
        InvalidError: it may not.
    """
    if name in {"owner", "librarian"}:
        return str(name)
    if isinstance(name, str) and re.fullmatch(_AUTHOR, name):
        return name
    message = f"{name!r} cannot be an author"
    raise InvalidError(message, hint="an author is 'owner', 'librarian', 'session:<id>' or 'tap:<name>'")


def check_type(name: object) -> str:
    """Return ``name`` if it may be an entry's type (an open set of short lower-case words).

    Raises:
        InvalidError: it may not.
    """
    if isinstance(name, str) and re.fullmatch(_TYPE, name):
        return name
    message = f"{name!r} cannot be an entry's type"
    raise InvalidError(message, hint="a type is a short lower-case word such as 'decision', 'fact' or 'handoff'")


@lru_cache(_REMEMBERED)
def _is_domain(name: str) -> bool:
    return re.fullmatch(_DOMAIN, name) is not None and name not in _DEVICES


@lru_cache(_REMEMBERED)
def _is_entry_id(name: str) -> bool:
    return re.fullmatch(_ENTRY, name) is not None
