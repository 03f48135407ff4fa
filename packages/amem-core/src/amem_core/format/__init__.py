"""Durable bytes to domain values and back. The forms are normative in ``docs/format``."""
