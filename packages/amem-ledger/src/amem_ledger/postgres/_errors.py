"""What PostgreSQL and its driver report, in amem's words: what happened, where, and what mends it.

An address is host, port and database; a password is in no message, whatever the server or libpq says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from psycopg import conninfo

from amem_core.errors import ConfigError, InternalError, InvalidError, UnavailableError
from amem_ledger.postgres._driver import psycopg

if TYPE_CHECKING:
    from amem_core.errors import AmemError
    from amem_ledger.config import PostgresSettings

REINDEX = "run `amem reindex`: it makes the tables again, from the log"
# The statement was rolled back because of what others did at the same moment: once more is safe and enough.
ROLLED_BACK = frozenset({"40P01", "40001"})
_SECRET = ("password", "sslpassword", "passfile")

# By SQLSTATE: what is said behind the address, and the remedy.
_STATES: dict[str, tuple[str, str]] = {
    "28P01": ("refused the user or the password", "correct the user and password of the secret that dsn names"),
    "28000": ("refused the user", "correct the user of the secret that dsn names, or the server's pg_hba.conf"),
    "3D000": ("has no such database", "create it (CREATE DATABASE … ENCODING 'UTF8'), or correct the dsn"),
    "42501": ("does not allow it", "let this user create there: GRANT CREATE ON DATABASE … TO …"),
    "53100": ("cannot write: no room is left", "make room on the server's disk, then try again"),
    "53200": (
        "has no memory left for it",
        "raise max_locks_per_transaction on the server, or claim from fewer domains",
    ),
    "53300": ("takes no more connections", "lower pool_max, or raise max_connections on the server"),
    "57014": ("took longer than statement_timeout", "look at the server's load, or raise statement_timeout"),
    "55P03": (
        "is held by another for longer than lock_timeout",
        "wait for a rebuild to end, or end the transaction that pg_stat_activity shows; then try again",
    ),
    "57P01": ("is being shut down", "start it, then try again"),
    "57P02": ("has crashed", "look at the server's log, then try again"),
    "57P03": ("is starting up or shutting down", "try again in a moment"),
    "25006": ("is a read-only standby", "let the dsn reach the primary: target_session_attrs=read-write"),
    "40P01": ("was changed by others at the same moment", "try again"),
    "40001": ("was changed by others at the same moment", "try again"),
    "XX001": ("is damaged on the disk", "restore the database from a backup, then run `amem reindex`"),
    "XX002": ("has a damaged index", "REINDEX DATABASE on the server, then try again"),
}
# Tables are missing, or rows contradict each other: it is not what amem made.
_DAMAGE = ("3F000", "42P01", "42703", "42704", "42883", "42P10", "23")
_TOO_LONG = "54000"
# Where a connection is refused libpq gives the server's words and no state; a server may speak another language.
_REFUSALS = (
    ("password authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ("role ", "28000"),
    ("database system is", "57P03"),
    ("database ", "3D000"),
    ("too many clients", "53300"),
    ("connection slots", "53300"),
    ("too many connections", "53300"),
)
# The address is said before, in amem's words.
_NOISE = re.compile(
    r'connection failed: |connection to server (at|on socket) "[^"]*"( \([^)]*\))?(, port \d+)? failed: |; Is the server running[^;]*'
)


class Address(NamedTuple):
    """Where the ledger is, as messages say it; ``secrets`` are what they never say."""

    text: str
    secrets: tuple[str, ...]

    def without_secrets(self, text: str) -> str:
        """Return ``text`` in one line, with no secret in it."""
        line = "; ".join(part.strip() for part in text.splitlines() if part.strip())
        for secret in self.secrets:
            line = line.replace(secret, "…")
        return line


def address_of(settings: PostgresSettings) -> Address:
    """Return where ``settings`` point.

    Raises:
        ConfigError: the dsn is none.
    """
    try:
        parts = {
            name: str(value) for name, value in conninfo.conninfo_to_dict(settings.dsn).items() if value is not None
        }
    except psycopg.Error:
        parts = {"port": "?"}
    ports = parts.get("port", "").split(",")
    # A sign in the password that is not escaped moves what is behind it into host, port or database.
    if any(port and not port.isdigit() for port in ports) or "@" in parts.get("host", "") + parts.get("dbname", ""):
        # No part of it is repeated, nor what libpq says of it: either may have the password.
        message = "ledger.postgres.dsn cannot be read"
        hint = (
            "give postgresql://USER:PASSWORD@HOST:PORT/DATABASE; in the password write %40 for @, %2F for / and so on"
        )
        raise ConfigError(message, hint=hint)
    if "service" in parts:
        where = f"the service {parts['service']}"
    else:
        where = f"{parts.get('host') or 'the local socket'}:{parts.get('port') or 5432}"
    database = parts.get("dbname") or parts.get("user")
    text = f"PostgreSQL at {where}" + (f", database {database}" if database else "")
    return Address(text, tuple(parts[name] for name in _SECRET if parts.get(name)))


def translated(error: psycopg.Error, address: Address) -> AmemError:
    """Return the error that tells of ``error``."""
    said = address.without_secrets(str(error)) or type(error).__name__
    state = error.sqlstate or ""
    if state in _STATES:
        what, hint = _STATES[state]
        return UnavailableError(f"{address.text} {what}: {said}", hint=hint)
    if state.startswith(_DAMAGE):
        message = f"{address.text} does not hold the ledger as amem made it: {said}"
        return UnavailableError(message, hint=REINDEX, damaged=True)
    if state == _TOO_LONG:
        return InvalidError(f"{address.text} cannot keep so long a text: {said}", hint="give a shorter id or origin")
    if isinstance(error, psycopg.OperationalError):
        said = _NOISE.sub("", said)
        for words, state in _REFUSALS:
            if words in said:
                what, hint = _STATES[state]
                return UnavailableError(f"{address.text} {what}: {said}", hint=hint)
        message = f"{address.text} cannot be reached: {said}; tasks wait for it, search, get and write do not"
        return UnavailableError(message, hint=_remedy(said))
    return InternalError(f"{address.text}: {said}", hint="report it, with the versions of amem and of PostgreSQL")


def lost(error: BaseException | None, address: Address, *, changing: bool) -> UnavailableError:
    """Return the error for a connection that was lost twice."""
    said = address.without_secrets(str(error)) if error is not None else "the connection was closed"
    message = f"{address.text} ended the connection, twice: {said}"
    if changing:
        message += "; whether the change was made is not known"
        return UnavailableError(message, hint="look at the task (`amem task show ID`) before you repeat it")
    return UnavailableError(message, hint="look at the server's log, then try again")


def _remedy(said: str) -> str:
    if "could not translate host name" in said or "failed to resolve host" in said:
        return "correct the host of the secret that dsn names, or look at the name server"
    if "timeout" in said or "timed out" in said:
        return "look at the network and the firewall between here and that host; connect_timeout says how long to wait"
    return "start the server, or correct host and port of the secret that dsn names; `amem doctor` tries it"
