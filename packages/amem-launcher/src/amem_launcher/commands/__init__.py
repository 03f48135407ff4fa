"""One module for each command; each is imported when its command is called, and holds it as ``command``."""
