"""How the conformance suite reaches the ledger in PostgreSQL: one database, and a schema's name for each site."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from amem_core.testing import DirectoryHarness, Site

if TYPE_CHECKING:
    import os
    from collections.abc import Generator, Iterator, Mapping


class PostgresHarness:
    """Gives every test tables of its own on the server that the suite started; drops them at the end."""

    service = "postgres"
    """The service that the suite starts before it starts this harness."""

    def __init__(self) -> None:
        self._directories = DirectoryHarness()
        self._dsn = ""
        self._run = ""
        self._count = 0

    def serve(self, address: Mapping[str, str]) -> None:
        """Take the ``dsn`` of the server."""
        self._dsn = address["dsn"]

    @contextmanager
    def start(self, scratch: str | os.PathLike[str]) -> Generator[None]:
        """Name the tables of this run as no other run's are named."""
        from secrets import token_hex  # noqa: PLC0415  (the harness of the embedded ledger pays for none of it)

        self._run = f"t{token_hex(4)}"
        with self._directories.start(scratch):
            yield
        self._drop()

    def fresh(self) -> Site:
        """Return a site without tables."""
        self._count += 1
        return Site(
            self._directories.fresh().root, {"dsn": self._dsn, "schema": f"{self._run}n{self._count}", "pool_max": 16}
        )

    def raw(self, site: Site) -> PostgresRaw:
        """Return access to the site's rows."""
        return PostgresRaw(self._dsn, str(site.settings["schema"]))

    def _drop(self) -> None:
        from psycopg import connect, sql  # noqa: PLC0415  (the same)

        with connect(self._dsn, autocommit=True) as connection:
            # No underscore stands in a run's name: it is no pattern.
            found = connection.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (self._run,))
            for (name,) in found.fetchall():
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


class PostgresRaw:
    """The rows of one ledger behind the port's back, each as JSON; a key is ``<schema>/<table>/<first column>``."""

    def __init__(self, dsn: str, ledger: str) -> None:
        self._dsn = dsn
        self._ledger = ledger

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Yield every row's key and content, by key."""
        from psycopg import connect, sql  # noqa: PLC0415  (the same)

        with connect(self._dsn, autocommit=True) as connection:
            tables = connection.execute(
                "SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
                " WHERE c.relkind = 'r' AND (n.nspname = %s OR starts_with(n.nspname, %s)) ORDER BY 1, 2",
                (self._ledger, f"{self._ledger}_"),
            ).fetchall()
            for schema, table in tables:
                query = sql.SQL("SELECT to_jsonb(t) FROM {} AS t").format(sql.Identifier(schema, table))
                rows: list[dict[str, Any]] = [row for (row,) in connection.execute(query).fetchall()]
                for row in sorted(rows, key=lambda row: str(next(iter(_ordered(row).values())))):
                    content = _ordered(row)
                    yield f"{schema}/{table}/{next(iter(content.values()))}", json.dumps(content).encode()

    def write(self, key: str, data: bytes) -> None:
        """Replace or create a row from JSON; NULL where a column is not named."""
        from psycopg import connect, sql  # noqa: PLC0415  (the same)

        schema, table, value = key.split("/", 2)
        names = {"table": sql.Identifier(schema, table), "first": sql.Identifier(_FIRST[table])}
        with connect(self._dsn) as connection:
            connection.execute(sql.SQL("DELETE FROM {table} WHERE {first}::text = %s").format(**names), (value,))
            connection.execute(
                sql.SQL("INSERT INTO {table} SELECT * FROM jsonb_populate_record(NULL::{table}, %s)").format(**names),
                (data.decode(),),
            )


_FIRST = {"task": "id", "outbox": "number", "domain": "name", "route": "id", "step": "number"}


def _ordered(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with the column first that names it."""
    first = next(name for name in ("number", "id", "name") if name in row)
    return {first: row[first], **row}
