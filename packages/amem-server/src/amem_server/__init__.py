"""The memory server of amem: one per session, over the Model Context Protocol."""
