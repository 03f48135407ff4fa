"""The requirements of each port: one module a port, each with a list ``REQUIREMENTS``."""
