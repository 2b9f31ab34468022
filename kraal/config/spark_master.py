"""A worker's Spark settings: the kind of master, the warmup, and the paths that executors share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MASTER: Final = "spark.master"
WARMUP: Final = "kraal.spark.warmup.enabled"
DEFAULT_MASTER: Final = "local[*]"
_LOCAL: Final = re.compile(r"local(?:\[(?:\d+|\*)(?:,\d+)?])?")
SHARED_PATHS: Final = "spark.cluster.shared.paths"
_STANDALONE: Final = "spark://"
_LOCAL_CLUSTER: Final = "local-cluster["


def get_master(worker: Mapping[str, str]) -> str:
    """Return the Spark master in a worker's properties."""
    return worker.get(MASTER, DEFAULT_MASTER)


def is_local(worker: Mapping[str, str]) -> bool:
    """Return whether Spark tasks run in the worker's JVM. With `local-cluster[…]`, executors are separate processes."""
    return _LOCAL.fullmatch(get_master(worker).strip()) is not None


def is_warmup_enabled(worker: Mapping[str, str]) -> bool:
    """Return whether Spark starts with the worker and warms up."""
    return worker.get(WARMUP, "").strip().lower() != "false"


def is_standalone(worker: Mapping[str, str]) -> bool:
    """Return whether the master belongs to a standalone Spark cluster."""
    return get_master(worker).startswith(_STANDALONE)


def has_remote_executors(worker: Mapping[str, str]) -> bool:
    """Return whether executors may run on other machines."""
    return not is_local(worker) and not get_master(worker).startswith(_LOCAL_CLUSTER)


def shared_paths(worker: Mapping[str, str]) -> list[str]:
    """Return the configured directories that the worker and executors share under the same paths."""
    return [path for entry in worker.get(SHARED_PATHS, "").split(",") if (path := entry.strip())]


def standalone_masters(master: str) -> list[tuple[str, int]]:
    """Return the host and port of each master in `spark://HOST:PORT,HOST:PORT`; skip masters without a port."""
    masters = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.strip().rpartition(":")
        if host and port.isdigit():
            masters.append((host.strip("[]"), int(port)))
    return masters
