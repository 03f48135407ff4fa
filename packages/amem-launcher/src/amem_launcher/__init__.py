"""The command line of amem and the launcher that confines a coding harness."""
