"""Spark settings that appear on JVM command lines, which all users of a machine can read.

All others are passed to the JVM in files of its user. See kraal/engine/session/gateway.py.
Source: SparkSubmitCommandBuilder (Spark 4.2.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.core.secrets import secrets

_SHOWN: Final = (
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.memory",
    "spark.executor.defaultJavaOptions",
    "spark.executor.extraClassPath",
    "spark.executor.extraJavaOptions",
    "spark.executor.extraLibraryPath",
)
"""Settings of executors apply only if spark.master is a cluster."""


def launch_warnings(raw: Mapping[str, str]) -> list[str]:
    """Return a warning for each such setting with a secret in its value. `raw`: with variables resolved."""
    return [
        f"{key} has a secret, or what a config provider returned, and stands on the command line of a JVM, where every "
        "user of its machine can read it; put the secret into another setting"
        for key in _SHOWN
        if (value := raw.get(key, "")) != secrets.scrub(value)
    ]
