"""The six ports. Their docstrings are the promises; ``amem-conformance`` proves them.

``API`` is each port's version as (major, minor): a backend is accepted when its major is equal and
its minor is not above.
"""

from __future__ import annotations

from typing import Final

API: Final[dict[str, tuple[int, int]]] = {
    "store": (1, 0),
    "index": (1, 0),
    "ledger": (1, 0),
    "log": (1, 0),
    "policy": (1, 0),
    "tools": (1, 0),
}
