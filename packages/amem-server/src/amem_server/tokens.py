"""The bearer token of the HTTP server: taken from the operator, or made and kept where only the owner reads it."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat

from amem_core.errors import InvalidError, UnavailableError

TOKEN_FILE = os.path.join("state", "http-token")
SHORTEST = 16
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_LONGEST_FILE = 4096


def check_token(token: str) -> str:
    """Return ``token`` if it may be a bearer token.

    Raises:
        InvalidError: it is too short to be a secret, or holds what a header cannot carry.
    """
    if len(token) >= SHORTEST and _TOKEN.fullmatch(token):
        return token
    message = "the token cannot be a bearer token"
    raise InvalidError(
        message, hint=f"use at least {SHORTEST} letters, digits or '-._~+/', such as `openssl rand -hex 32` prints"
    )


def kept_token(root: str) -> tuple[str, str]:
    """Return the token that is kept under ``root``, made if there is none, and the file that holds it.

    Delete the file to get another one.

    Raises:
        InvalidError: others may read the file, or it holds no token.
        UnavailableError: it cannot be read or written.
    """
    path = os.path.join(root, TOKEN_FILE)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            return _read(path), path
        except FileNotFoundError:
            return _make(path), path
    except OSError as exc:
        message = f"the token file {path} cannot be used: {exc.strerror}"
        raise UnavailableError(message, hint="give this user write permission there, or name a token") from exc


def _make(path: str) -> str:
    token = secrets.token_urlsafe(32)
    draft = f"{path}.{os.getpid()}"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token + "\n")
        # Of two servers that start at once, the first one's token stands.
        os.link(draft, path)
    except FileExistsError:
        return _read(path)
    finally:
        os.unlink(draft)
    return token


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, encoding="ascii", errors="replace") as file:
        status = os.fstat(file.fileno())
        text = file.read(_LONGEST_FILE)
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
        message = f"{path} can be read by others than its owner"
        raise InvalidError(message, hint=f"delete it; a new token is made at the next start ({TOKEN_FILE})")
    try:
        return check_token(text.strip())
    except InvalidError as exc:
        message = f"{path} holds no token"
        raise InvalidError(message, hint="delete it; a new token is made at the next start") from exc


class Bearer:
    """Knows the one token by its digest and compares in constant time."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token.encode())

    def accepts(self, token: bytes) -> bool:
        """Return whether ``token`` is the one."""
        return hmac.compare_digest(_digest(token), self._digest)


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
