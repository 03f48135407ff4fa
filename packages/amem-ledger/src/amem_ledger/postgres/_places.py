"""Which domain is where, and which task is in which domain: asked once, then known.

A task never changes its domain, and a domain never its schema. What turns out to be wrong all the same
(somebody dropped a schema) is forgotten and asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amem_ledger.postgres import _schema as schema
from amem_ledger.postgres._statements import routing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import Connection

    from amem_ledger.postgres._schema import Place

_MOST_TASKS = 10_000


class Places:
    """What one opened ledger knows of where things are. Callable from any thread."""

    def __init__(self, ledger: str) -> None:
        self.ledger = ledger
        self._domains: dict[str, Place] = {}
        self._tasks: dict[str, str] = {}

    def find(self, connection: Connection, domain: str) -> Place | None:
        """Return where ``domain`` is, None when it has nothing yet."""
        place = self._domains.get(domain)
        if place is None:
            self.look(connection, [domain])
            place = self._domains.get(domain)
        return place

    def look(self, connection: Connection, domains: list[str]) -> list[Place]:
        """Return where those of ``domains`` are that have anything, as the database knows it now."""
        found = schema.find(connection, self.ledger, domains)
        self._domains.update((place.domain, place) for place in found)
        return found

    def make(self, connection: Connection, domain: str) -> Place:
        """Return where ``domain`` is; it is made when it is not there."""
        place = self.find(connection, domain)
        if place is None:
            place = schema.place_of(self.ledger, domain)
            schema.make(connection, self.ledger, place)
            self._domains[domain] = place
        return place

    def repair(self, connection: Connection, domain: str) -> Place:
        """Return where ``domain`` is; whatever of it is missing is made."""
        self._domains.pop(domain, None)
        place = schema.place_of(self.ledger, domain)
        schema.make(connection, self.ledger, place)
        self._domains[domain] = place
        return place

    def of_task(self, connection: Connection, id: str) -> Place | None:
        """Return where the task of that id is, None when there is none."""
        domain = self._tasks.get(id)
        if domain is None:
            row = connection.execute(routing(self.ledger).domain_of, {"id": id}).fetchone()
            if row is None:
                return None
            domain = str(row[0])
            self.remember([(id, domain)])
        return self.find(connection, domain)

    def remember(self, tasks: Iterable[tuple[str, str]]) -> None:
        """Keep in mind which domain each id is of."""
        if len(self._tasks) > _MOST_TASKS:
            self._tasks.clear()
        self._tasks.update(tasks)

    def forget(self, id: str) -> None:
        """Ask again where that task is."""
        self._tasks.pop(id, None)

    def forget_all(self) -> None:
        """Ask again where everything is."""
        self._domains.clear()
        self._tasks.clear()
