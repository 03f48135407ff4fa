"""What the catalog ``state/tantivy/catalog.sqlite`` holds: the rows of every domain, and what Tantivy has not taken in yet."""

from __future__ import annotations

from amem_index import _schema as shared

FORMAT = 1
# Of the tables here in its thousands, of those that the embedded index has too in the rest.
VERSION = 1000 * FORMAT + shared.VERSION

# A row's number is never used again: a document of Tantivy is told by it, and outlives its row.
_ROWS = tuple(
    statement.replace("row INTEGER PRIMARY KEY,", "row INTEGER PRIMARY KEY AUTOINCREMENT,") for statement in shared.ROWS
)

# text: the words of a row as Tantivy takes them, see ``_text``. A row never changes what Tantivy knows of it: where it
# has to, it gets another number.
#
# part: the state of a shard's words. ``generation`` names its directory, '' before there is one; ``fold`` is the number
# of the last commit there that this catalog tells of, ``intent`` that of one that was begun, with what the journal had up to
# ``taken``; ``head`` is the last number of the shard's journal and ``folded`` the last that Tantivy has;
# ``epoch`` grows when what a process remembers of the shard is void; ``waiting`` counts the characters of the journal;
# ``dirty`` says that the directory holds bytes of what was forgotten. The rest are the sums that ranking needs.
#
# journal: rows that came (``gone`` 0) and went (1) since the last fold, in order; what went is kept with its words, by
# which Tantivy still counts it.
STATEMENTS = (
    *_ROWS,
    (
        "CREATE TABLE text (row INTEGER PRIMARY KEY, tokens INTEGER NOT NULL, title INTEGER NOT NULL,"
        " summary INTEGER NOT NULL, text TEXT NOT NULL)"
    ),
    (
        "CREATE TABLE part (shard INTEGER PRIMARY KEY, generation TEXT NOT NULL, fold INTEGER NOT NULL DEFAULT 0,"
        " intent INTEGER NOT NULL DEFAULT 0, taken INTEGER NOT NULL DEFAULT 0,"
        " epoch INTEGER NOT NULL DEFAULT 0, head INTEGER NOT NULL DEFAULT 0, folded INTEGER NOT NULL DEFAULT 0,"
        " waiting INTEGER NOT NULL DEFAULT 0, dirty INTEGER NOT NULL DEFAULT 0, live INTEGER NOT NULL DEFAULT 0,"
        " live_tokens INTEGER NOT NULL DEFAULT 0, rest INTEGER NOT NULL DEFAULT 0,"
        " rest_tokens INTEGER NOT NULL DEFAULT 0)"
    ),
    (
        "CREATE TABLE journal (shard INTEGER NOT NULL, number INTEGER NOT NULL, row INTEGER NOT NULL,"
        " gone INTEGER NOT NULL, pool INTEGER NOT NULL, id TEXT NOT NULL, text TEXT, PRIMARY KEY (shard, number))"
        " WITHOUT ROWID"
    ),
    f"PRAGMA user_version = {VERSION}",
)
