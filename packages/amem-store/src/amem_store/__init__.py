"""The record and the log of amem: Markdown files and JSON lines."""
