"""What the file ``state/index.sqlite`` holds. It is derived, so another version of it is made anew, never migrated."""

from __future__ import annotations

from amem_index.analysis import TOKENIZER

VERSION = 3

# Title and alias before summary before body; what holds the exact term of a question comes first anyway.
_WEIGHTS = "bm25(4.0, 2.0, 1.0, 4.0, 2.0)"


def _words(table: str) -> tuple[str, str]:
    return (
        f'CREATE VIRTUAL TABLE {table} USING fts5(title, summary, body, aliases, exact, tokenize="{TOKENIZER}")',
        f"INSERT INTO {table}({table}, rank) VALUES('rank', '{_WEIGHTS}')",
    )


# A shard is one generation of one domain. state: 1 what readers see, 0 being built or left over.
#
# doc: one row per version. ``own`` is its label, ``shown`` the label that it carries; ``known_until`` is
# NULL for the newest; times are microseconds since 1970 in UTC; ``tags`` and ``sources`` are lines;
# ``fingerprint`` is equal for equal text.
# ``words`` counts the entry's own; entries of one ``strand`` were written after one another and tell about each other.
# ``competes`` says which table of words holds its text: the newest version of an active entry is in ``live``,
# anything else in ``rest``, so that what may not answer costs a search nothing and sways no rank.
# What the words stand beside; whatever ranks them.
ROWS = (
    (
        "CREATE TABLE shard (number INTEGER PRIMARY KEY AUTOINCREMENT, domain TEXT NOT NULL, state INTEGER NOT NULL,"
        " watermark INTEGER NOT NULL)"
    ),
    "CREATE UNIQUE INDEX shard_current ON shard(domain) WHERE state = 1",
    "CREATE TABLE forgotten (shard INTEGER NOT NULL, id TEXT NOT NULL, PRIMARY KEY (shard, id)) WITHOUT ROWID",
    (
        "CREATE TABLE doc (row INTEGER PRIMARY KEY, shard INTEGER NOT NULL, shown INTEGER NOT NULL, competes INTEGER NOT NULL,"
        " status TEXT NOT NULL, type TEXT NOT NULL, tier INTEGER NOT NULL, created INTEGER NOT NULL,"
        " known_from INTEGER NOT NULL, known_until INTEGER, valid_from INTEGER, valid_until INTEGER,"
        " always_load INTEGER NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, own INTEGER NOT NULL,"
        " author TEXT NOT NULL, tags TEXT NOT NULL, sources TEXT NOT NULL, fingerprint TEXT NOT NULL,"
        " words INTEGER NOT NULL, strand TEXT, card TEXT NOT NULL)"
    ),
    "CREATE UNIQUE INDEX doc_version ON doc(shard, id, version)",
    "CREATE INDEX doc_type ON doc(shard, status, type, created, id) WHERE known_until IS NULL",
    "CREATE INDEX doc_created ON doc(shard, created, id) WHERE known_until IS NULL",
    "CREATE INDEX doc_fingerprint ON doc(shard, fingerprint) WHERE known_until IS NULL",
    "CREATE INDEX doc_strand ON doc(shard, strand, created, id) WHERE competes = 1 AND strand IS NOT NULL",
    "CREATE INDEX doc_always ON doc(shard, created, id) WHERE known_until IS NULL AND always_load = 1",
)
STATEMENTS = (
    *ROWS,
    *_words("live"),
    *_words("rest"),
    f"PRAGMA user_version = {VERSION}",
)
