"""Checks of a worker's `spark.*` settings: clusters, and secrets on command lines, which all users can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.spark_master import SHARED_PATHS, get_master, is_local, is_standalone, shared_paths
from kraal.core.secrets import secrets

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
            f"{_SECRET} is missing: with {get_master(raw)} it must be the secret of the Spark master and workers; if "
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


_SHOWN: Final = (
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.memory",
    "spark.executor.defaultJavaOptions",
    "spark.executor.extraClassPath",
    "spark.executor.extraJavaOptions",
    "spark.executor.extraLibraryPath",
)
"""Settings on JVM command lines; all others are passed in files (kraal/engine/session/gateway.py).

Those of executors apply only if spark.master is a cluster. Source: SparkSubmitCommandBuilder (Spark 4.2.0).
"""


def launch_warnings(raw: Mapping[str, str]) -> list[str]:
    """Return a warning for each such setting with a secret in its value. `raw`: with variables resolved."""
    return [
        f"{key} has a secret, or what a config provider returned, and stands on the command line of a JVM, where every "
        "user of its machine can read it; put the secret into another setting"
        for key in _SHOWN
        if (value := raw.get(key, "")) != secrets.scrub(value)
    ]
