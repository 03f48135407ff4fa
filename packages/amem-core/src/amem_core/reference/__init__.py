"""The reference adapter of every port, in memory: what the conformance suite compares others with."""
