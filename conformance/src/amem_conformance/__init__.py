"""The conformance suite of amem: what every backend of a port must show."""
