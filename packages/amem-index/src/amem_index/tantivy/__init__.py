"""The index in Tantivy; see ``index``. Nothing is imported here, so that the driver is needed by who opens it alone."""
