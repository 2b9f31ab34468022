"""What a Spark master's URL says: whether Spark's tasks run in the JVM that the worker starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MASTER: Final = "spark.master"
DEFAULT: Final = "local[*]"
_LOCAL: Final = re.compile(r"local(?:\[(?:\d+|\*)(?:,\d+)?])?")
_STANDALONE: Final = "spark://"


def master_of(worker: Mapping[str, str]) -> str:
    """Return the worker's master; `worker`: its properties."""
    return worker.get(MASTER, DEFAULT)


def is_local(worker: Mapping[str, str]) -> bool:
    """Whether Spark's tasks run in the worker's own JVM. `local-cluster[…]` has executors in other processes."""
    return _LOCAL.fullmatch(master_of(worker).strip()) is not None


def is_standalone(worker: Mapping[str, str]) -> bool:
    """Whether the master is that of a standalone cluster."""
    return master_of(worker).startswith(_STANDALONE)


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """Return host and port of each master in `spark://HOST:PORT,HOST:PORT`; those without a port are left out."""
    found = []
    for each in master.removeprefix(_STANDALONE).split(","):
        host, _, port = each.strip().rpartition(":")
        if host and port.isdigit():
            found.append((host.strip("[]"), int(port)))
    return found
