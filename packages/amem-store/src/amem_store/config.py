"""The settings of the embedded store and log; no driver, so that a configuration is checked cheaply."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSettings:
    """The table ``[store.files]``. It has no keys: the record is ``record/`` in the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlSettings:
    """The table ``[log.jsonl]``. It has no keys: the log is ``state/log/`` in the root."""
