"""Checks of a worker's `spark.*` settings: clusters, and secrets on command lines, which all users can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.spark_master import SHARED_PATHS, get_master, is_local, is_standalone, shared_paths
from kraal.core.secrets import secrets

_SECRET_KEY: Final = "spark.authenticate.secret"  # noqa: S105 - the name of a key
_DEPLOY_MODE: Final = "spark.submit.deployMode"


def cluster_errors(raw: Mapping[str, str]) -> list[str]:
    """Return the errors in the settings of a Spark cluster, each starting with a key. A local master has no errors."""
    if is_local(raw):
        return []
    errors = []
    uses_authentication = raw.get("spark.authenticate", "true").strip().lower() != "false"
    if is_standalone(raw) and uses_authentication and not raw.get(_SECRET_KEY):
        errors.append(
            f"{_SECRET_KEY} is missing: {get_master(raw)} requires the secret of the Spark master and workers. If they "
            "have no secret, set spark.authenticate=false; any client that can reach them can then run code there"
        )
    if raw.get(_DEPLOY_MODE, "client") != "client":
        errors.append(f"{_DEPLOY_MODE} must be client: Spark's driver runs on the worker's machine")
    errors += [
        f"{SHARED_PATHS} has {path}, which is not an absolute path"
        for path in shared_paths(raw)
        if not path.startswith("/")
    ]
    return errors


_COMMAND_LINE_SETTINGS: Final = (
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.memory",
    "spark.executor.defaultJavaOptions",
    "spark.executor.extraClassPath",
    "spark.executor.extraJavaOptions",
    "spark.executor.extraLibraryPath",
)
"""Settings on JVM command lines; other settings are passed in files (kraal/engine/session/gateway.py).

Settings of executors are included, because a cluster also starts executors with a command line.
Source: SparkSubmitCommandBuilder (Spark 4.2.0).
"""


def launch_warnings(raw: Mapping[str, str]) -> list[str]:
    """Return a warning for each command-line setting that contains a secret. Variables in `raw` must be resolved."""
    return [
        f"{key} contains a secret or the value of a variable, and is passed on the command line of a JVM, where every "
        "user of the machine can read it; move the secret to another setting"
        for key in _COMMAND_LINE_SETTINGS
        if (value := raw.get(key, "")) != secrets.scrub(value)
    ]
