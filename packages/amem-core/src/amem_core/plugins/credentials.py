"""``credentials.env``: secrets of a root, in a file that only its owner may read."""

from __future__ import annotations

import os
import stat

from amem_core.errors import ConfigError, UnavailableError

FILE = "credentials.env"


def read_credentials(root: str) -> dict[str, str]:
    """Return the ``NAME=value`` lines of ``credentials.env``; empty when there is no such file.

    Blank lines and lines that begin with ``#`` are passed over; a value is everything behind the
    first ``=``, as it stands.

    Raises:
        ConfigError: others than the owner may read it, or a line has no ``=``.
        UnavailableError: it is there and cannot be read.
    """
    path = os.path.join(root, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                message = f"{path} may be read by others than its owner"
                raise ConfigError(message, hint=f"chmod 600 {path}")
            lines = file.read().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as exc:
        message = f"{path} cannot be read: {exc}"
        raise UnavailableError(message, hint="give this user read permission on it, as UTF-8") from exc
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            message = f"{path}, line {number}: no '='"
            raise ConfigError(message, hint="write NAME=value")
        found[name.strip()] = value
    return found
