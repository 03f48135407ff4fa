"""What a backend may offer beside its port: to try, for ``amem doctor``, what it stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from amem_core.domain.results import Check


class SupportsCheck(Protocol):
    """An opened port that can try the service behind it: a round trip, versions, permissions, the clock."""

    def check(self, *, now: datetime) -> Iterable[Check]:
        """Return what was found; changes nothing.

        Args:
            now: the caller's time as the call begins, to compare the service's clock with.

        Raises:
            AmemError: the service cannot be reached, or refuses.
        """
        ...
