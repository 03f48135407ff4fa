"""The memory server of amem: one per session, over the Model Context Protocol.

Importing ``amem_server`` costs nothing; ``amem_server.stdio`` and ``amem_server.http`` import the
SDK, which takes a second of CPU, so that only whoever serves pays for it.
"""
