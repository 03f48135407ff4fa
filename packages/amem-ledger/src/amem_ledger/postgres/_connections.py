"""Connections to one database: from psycopg's pool, with errors in amem's words, and one more try when one is lost.

The pool connects in threads of its own and tells whoever waits only that time is up. Here the reason
of a failed attempt ends the wait, so that a server that is down is an error at once, with its cause.
Nothing is tried behind a caller's back: each attempt to connect is one that somebody waits for.

A call is made once more when its connection is lost: the server was restarted, or an administrator
ended the connection. A call that reads is simply made again. One that changes is asked for first: it
left a token if it was made.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

import psycopg_pool
from psycopg import conninfo

from amem_core.errors import UnavailableError
from amem_ledger.postgres._driver import psycopg
from amem_ledger.postgres._errors import ROLLED_BACK, address_of, lost, translated

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from amem_ledger.config import PostgresSettings

Answer = TypeVar("Answer")

_GLANCE = 0.05
_AGAIN = "open the memory again"
_CONFIGURE = (
    "SELECT set_config('TimeZone', 'UTC', false), set_config('statement_timeout', %s, false),"
    " set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),"
    # Each statement has one right plan, which follows an index from its beginning, whatever the values and the
    # statistics are: it is made once for a connection, and no sort of all that is ready is guessed cheaper.
    " set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false),"
    " set_config('enable_bitmapscan', 'off', false)"
)
# What goes wrong while nobody waits goes wrong again when somebody does, and is an error then.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


class _LostError(Exception):
    """The connection is gone; whether the statement was carried out is not known."""


class _RolledBackError(Exception):
    """The statement was undone because of what others did at the same moment."""


class Connections:
    """The pool of one opened ledger; made when first used, so that opening a root costs nothing."""

    def __init__(self, settings: PostgresSettings, prepare: Callable[[Connection], None]) -> None:
        self.address = address_of(settings)
        self._settings = settings
        self._prepare = prepare
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._preparing = threading.Lock()
        self._pool: psycopg_pool.ConnectionPool[Connection] | None = None
        self._prepared = False
        self._closed = False
        # When an attempt to connect failed, and why.
        self._failure: tuple[float, Exception] | None = None

    def run(
        self,
        work: Callable[[Connection], Answer],
        *,
        recover: Callable[[Connection], Answer | None] | None = None,
        changing: bool = False,
    ) -> Answer:
        """Return what ``work`` does with a connection, outside a transaction.

        When the connection is lost meanwhile, ``recover`` is asked, on another one, whether the work was
        done; None means that it was not. Then, or without it, the work is done again, once.

        Raises:
            AmemError: what the server or the driver reports, or ``work`` raises.
        """
        try:
            return self._once(work)
        except _RolledBackError:
            return self._last(work, changing=False)
        except _LostError:
            self._start_over()
        return self._last(_recovering(work, recover), changing=changing)

    def close(self) -> None:
        """Close every connection, those in use when they are given back. Idempotent."""
        with self._guard:
            self._closed = True
            pool, self._pool = self._pool, None
        if pool is not None and os.getpid() == self._process:
            pool.close()

    def _last(self, work: Callable[[Connection], Answer], *, changing: bool) -> Answer:
        """Do the work for the last time; ``changing``: a change may have been made before."""
        try:
            return self._once(work)
        except _RolledBackError as exc:
            raise _cause(exc, self) from exc.__cause__
        except _LostError as exc:
            raise lost(exc.__cause__, self.address, changing=changing) from exc.__cause__
        except UnavailableError as exc:
            if changing:
                message = f"{exc}; the connection was lost during a change, and whether it was made is not known"
                raise UnavailableError(message, hint=f"{exc.hint}; then look at the task before you repeat it") from exc
            raise

    def _once(self, work: Callable[[Connection], Answer]) -> Answer:
        connection, pool = self._take()
        try:
            if not self._prepared:
                self._prepare_with(connection)
            return work(connection)
        except psycopg.Error as exc:
            if connection.closed:
                raise _LostError from exc
            if exc.sqlstate in ROLLED_BACK:
                raise _RolledBackError from exc
            raise translated(exc, self.address) from exc
        finally:
            pool.putconn(connection)

    def _prepare_with(self, connection: Connection) -> None:
        with self._preparing:
            if not self._prepared:
                self._prepare(connection)
                self._prepared = True

    def _start_over(self) -> None:
        """After a loss: connect anew, and look at the tables again.

        What was lost with one connection is, mostly, lost with all: to try each would take, where the
        network is gone, a time-out for each.
        """
        with self._guard:
            pool, self._pool = self._pool, None
            self._prepared = False
        if pool is not None:
            # Connections in use are closed when they are given back. Its threads end by themselves.
            pool.close(timeout=0)

    def _take(self) -> tuple[Connection, psycopg_pool.ConnectionPool[Connection]]:
        began = time.monotonic()
        patience = _GLANCE
        while True:
            pool = self._opened()
            left = began + self._settings.wait - time.monotonic()
            try:
                return pool.getconn(timeout=max(min(patience, left), 0.001)), pool
            except psycopg_pool.PoolClosed:
                # By close(), which the next look finds, or by another thread that lost its connection.
                continue
            except psycopg_pool.PoolTimeout as exc:
                failure = self._failure
                if failure is not None and failure[0] >= began:
                    raise self._refused(failure[1]) from failure[1]
                if left <= patience:
                    message = f"{self.address.text}: no connection was free in {self._settings.wait:g} s"
                    hint = "raise pool_max, or ask for less at a time"
                    raise UnavailableError(message, hint=hint) from exc
                # Longer each time: who asks again stands behind those who waited.
                patience *= 2

    def _opened(self) -> psycopg_pool.ConnectionPool[Connection]:
        pool = self._pool
        if pool is not None and os.getpid() == self._process:
            return pool
        if os.getpid() != self._process:
            message = f"the ledger at {self.address.text} was opened by the process that this one was forked from"
            raise UnavailableError(message, hint="open the memory in the process that uses it")
        with self._guard:
            if self._closed:
                raise self._is_closed()
            if self._pool is None:
                self._pool = self._make()
            return self._pool

    def _make(self) -> psycopg_pool.ConnectionPool[Connection]:
        settings = self._settings
        given = conninfo.conninfo_to_dict(settings.dsn)
        text = conninfo.make_conninfo(
            settings.dsn,
            application_name=given.get("application_name") or "amem",
            client_encoding="utf8",
            # libpq counts whole seconds, and takes 1 for 2.
            connect_timeout=max(2, math.ceil(settings.connect_timeout)),
            # A host that has vanished without a word is noticed, and not waited for until TCP gives up.
            keepalives_idle=given.get("keepalives_idle") or 30,
            keepalives_interval=given.get("keepalives_interval") or 10,
            keepalives_count=given.get("keepalives_count") or 3,
            tcp_user_timeout=given.get("tcp_user_timeout") or math.ceil(1000 * (settings.statement_timeout + 10)),
        )
        return psycopg_pool.ConnectionPool(
            text,
            connection_class=self._noting(),
            # A process that serves makes the same few statements again and again; a command makes each once.
            kwargs={"autocommit": True, "prepare_threshold": 2},
            min_size=settings.pool_min,
            max_size=settings.pool_max,
            open=True,
            configure=self._configure,
            name="amem-ledger",
            timeout=settings.wait,
            # Whoever waits asks again; without anybody who waits, nothing is tried.
            reconnect_timeout=0,
            num_workers=1,
        )

    def _noting(self) -> type[Connection]:
        """Return the driver's class of connections, with the reason noted when one cannot be made."""
        note = self._note

        class Noting(psycopg.Connection[Any]):
            @classmethod
            def connect(cls, *arguments: Any, **more: Any) -> Self:
                try:
                    return super().connect(*arguments, **more)
                except psycopg.Error as exc:
                    note(exc)
                    raise

        return Noting

    def _note(self, failure: Exception) -> None:
        self._failure = (time.monotonic(), failure)

    def _configure(self, connection: Connection) -> None:
        settings = self._settings
        statement = _milliseconds(settings.statement_timeout)
        try:
            connection.execute(_CONFIGURE, (statement, _milliseconds(settings.lock_timeout), statement))
        except psycopg.Error as exc:
            self._note(exc)
            connection.close()
            raise

    def _refused(self, failure: Exception) -> Exception:
        return translated(failure, self.address) if isinstance(failure, psycopg.Error) else failure

    def _is_closed(self) -> UnavailableError:
        return UnavailableError(f"the ledger at {self.address.text} is closed", hint=_AGAIN)


def _recovering(
    work: Callable[[Connection], Answer], recover: Callable[[Connection], Answer | None] | None
) -> Callable[[Connection], Answer]:
    """Return ``work``, done only when ``recover`` does not find that it was done."""
    if recover is None:
        return work

    def again(connection: Connection) -> Answer:
        made = recover(connection)
        return work(connection) if made is None else made

    return again


def _cause(error: BaseException, connections: Connections) -> BaseException:
    cause = error.__cause__
    return translated(cause, connections.address) if isinstance(cause, psycopg.Error) else error


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(1000 * seconds))}ms"
