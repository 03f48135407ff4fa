"""The settings of the ledgers; no driver, so that a configuration is checked cheaply."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from amem_core.errors import ConfigError

_SYNCHRONOUS = ("normal", "full")
_DAY = 86_400
_MOST_CONNECTIONS = 1000
# No underscore: what stands before the first one in a domain's schema is then this name and nothing else.
_SCHEMA = r"[a-z][a-z0-9]{0,19}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteSettings:
    """The table ``[ledger.sqlite]``.

    Attributes:
        synchronous: ``normal`` (the log is the durable truth, see ``amem_ledger.sqlite``) or ``full``,
            which makes each change durable here as well and costs an fsync for each.
        wait: for how many seconds a change waits for its turn before the ledger is unavailable.
    """

    synchronous: str = "normal"
    wait: float = 30.0

    def __post_init__(self) -> None:
        """Refuse what SQLite would take without a word.

        Raises:
            ConfigError: a value is none of those allowed.
        """
        if self.synchronous not in _SYNCHRONOUS:
            message = f"ledger.sqlite.synchronous cannot be {self.synchronous!r}"
            raise ConfigError(message, hint=f"one of: {', '.join(_SYNCHRONOUS)}")
        if not 0 < self.wait <= _DAY:
            message = f"ledger.sqlite.wait cannot be {self.wait!r}"
            raise ConfigError(message, hint="seconds, above 0 and up to a day; 30 is usual")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """The table ``[ledger.postgres]``.

    Attributes:
        dsn: how the database is reached, as libpq understands it: ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE``
            or ``host=… dbname=…``. A secret: ``amem.toml`` names where it is found.
        schema: the schema of what all domains share, and the beginning of each domain's own schema. Two
            deployments in one database need two names.
        pool_min: how many connections are kept open while nobody uses them.
        pool_max: how many connections one process opens at most.
        wait: for how many seconds a call waits for a connection before the ledger is unavailable.
        connect_timeout: for how many seconds a connection may take to be made.
        statement_timeout: for how many seconds a statement may run; a rebuild's may run on.
        lock_timeout: for how many seconds a statement waits for what another holds, such as a rebuild.
    """

    dsn: str = field(repr=False)
    schema: str = "amem"
    pool_min: int = 0
    pool_max: int = 8
    wait: float = 30.0
    connect_timeout: float = 10.0
    statement_timeout: float = 30.0
    lock_timeout: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what PostgreSQL, or its pool, would refuse later and less plainly.

        Raises:
            ConfigError: a value is none of those allowed.
        """
        if not self.dsn.strip():
            message = "ledger.postgres.dsn is empty"
            raise ConfigError(message, hint="give postgresql://USER:PASSWORD@HOST:PORT/DATABASE as a secret")
        if not re.fullmatch(_SCHEMA, self.schema) or self.schema.startswith("pg"):
            message = f"ledger.postgres.schema cannot be {self.schema!r}"
            raise ConfigError(
                message, hint="1 to 20 lower-case letters and digits, a letter first, not beginning with pg"
            )
        if not 0 <= self.pool_min <= self.pool_max or not 1 <= self.pool_max <= _MOST_CONNECTIONS:
            message = f"ledger.postgres.pool_min {self.pool_min} and pool_max {self.pool_max} make no pool"
            raise ConfigError(message, hint=f"pool_min from 0 to pool_max, pool_max from 1 to {_MOST_CONNECTIONS}")
        for name in ("wait", "connect_timeout", "statement_timeout", "lock_timeout"):
            value: float = getattr(self, name)
            if not 0 < value <= _DAY:
                message = f"ledger.postgres.{name} cannot be {value!r}"
                raise ConfigError(message, hint="seconds, above 0 and up to a day")
