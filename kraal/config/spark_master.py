"""The worker's settings of Spark's master and start: whether Spark's tasks run in the JVM that the worker starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MASTER: Final = "spark.master"
WARMUP: Final = "kraal.spark.warmup.enabled"
DEFAULT: Final = "local[*]"
_LOCAL: Final = re.compile(r"local(?:\[(?:\d+|\*)(?:,\d+)?])?")
SHARED_PATHS: Final = "spark.cluster.shared.paths"
_STANDALONE: Final = "spark://"
_LOCAL_CLUSTER: Final = "local-cluster["


def get_master(worker: Mapping[str, str]) -> str:
    """Return the worker's master; `worker`: its properties."""
    return worker.get(MASTER, DEFAULT)


def is_local(worker: Mapping[str, str]) -> bool:
    """Whether Spark's tasks run in the worker's own JVM. `local-cluster[…]` has executors in other processes."""
    return _LOCAL.fullmatch(get_master(worker).strip()) is not None


def warms_up(worker: Mapping[str, str]) -> bool:
    """Whether Spark starts with the worker and warms up; `worker`: its properties."""
    return worker.get(WARMUP, "").strip().lower() != "false"


def is_standalone(worker: Mapping[str, str]) -> bool:
    """Whether the master is that of a standalone cluster."""
    return get_master(worker).startswith(_STANDALONE)


def has_other_machines(worker: Mapping[str, str]) -> bool:
    """Whether executors may be on other machines."""
    return not is_local(worker) and not get_master(worker).startswith(_LOCAL_CLUSTER)


def shared_paths(worker: Mapping[str, str]) -> list[str]:
    """Return the folders that the worker and executors see under the same paths, as the worker's file lists them."""
    return [path for each in worker.get(SHARED_PATHS, "").split(",") if (path := each.strip())]


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """Return host and port of each master in `spark://HOST:PORT,HOST:PORT`; those without a port are left out."""
    masters = []
    for each in master.removeprefix(_STANDALONE).split(","):
        host, _, port = each.strip().rpartition(":")
        if host and port.isdigit():
            masters.append((host.strip("[]"), int(port)))
    return masters
