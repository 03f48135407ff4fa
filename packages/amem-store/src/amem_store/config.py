"""The settings of the embedded store and log; no driver, so that a configuration is checked cheaply."""

from __future__ import annotations

from typing import NamedTuple


class FilesSettings(NamedTuple):
    """The table ``[store.files]``. It has no keys: the record is ``record/`` in the root."""


class JsonlSettings(NamedTuple):
    """The table ``[log.jsonl]``. It has no keys: the log is ``state/log/`` in the root."""
