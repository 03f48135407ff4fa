"""Domain types: frozen values with no input or output, no clock and no environment."""
