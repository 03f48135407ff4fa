"""The suite itself: one package of tests for each port, run by ``amem-conformance KEY``."""
