"""Checks of a worker's `spark.*` settings that only matter if its Spark master is a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.spark_master import SHARED_PATHS, is_local, is_standalone, master_of, shared_paths

_SECRET: Final = "spark.authenticate.secret"  # noqa: S105 - the name of a key
_MODE: Final = "spark.submit.deployMode"


def cluster_errors(raw: Mapping[str, str]) -> list[str]:
    """Return the errors; each starts with the key. Empty with a local master."""
    if is_local(raw):
        return []
    errors = []
    authenticates = raw.get("spark.authenticate", "true").strip().lower() != "false"
    if is_standalone(raw) and authenticates and not raw.get(_SECRET):
        errors.append(
            f"{_SECRET} is missing: with {master_of(raw)} it must be the secret of the Spark master and workers; if "
            "those require none, which lets anyone who reaches them run code there, set spark.authenticate=false"
        )
    if raw.get(_MODE, "client") != "client":
        errors.append(f"{_MODE} must be client: the worker's own machine runs Spark's driver")
    errors += [
        f"{SHARED_PATHS} has {path}, which is not an absolute path"
        for path in shared_paths(raw)
        if not path.startswith("/")
    ]
    return errors
