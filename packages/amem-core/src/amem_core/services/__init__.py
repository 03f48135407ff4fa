"""The use cases, written on the ports alone."""
