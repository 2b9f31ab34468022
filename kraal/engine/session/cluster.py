"""The Spark settings of a worker whose executors are separate processes, usually on other machines.

Local mode does not use them: its Spark tasks run in the driver's JVM, with the worker's Python and files.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Mapping
from typing import Final

from kraal.config.clients.restrictions import java_properties
from kraal.config.spark_master import get_master, is_standalone, standalone_masters

DRIVER_HOST: Final = "spark.driver.host"
_LOCAL_CLUSTER: Final = "local-cluster["
_SECRET: Final = "spark.authenticate.secret"  # noqa: S105 - the name of a key
_EXECUTOR_OPTIONS: Final = "spark.executor.extraJavaOptions"
_PYTHON: Final = "spark.pyspark.python"
_DEFAULTS: Final = {
    # By default, an application takes all cores of a standalone cluster. Other masters limit the number of executors.
    "spark.cores.max": "2",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.dynamicAllocation.enabled": "false",
    # An executor that has lost its driver exits within 30 s instead of an hour, and is replaced within a minute.
    "spark.executor.heartbeatInterval": "10s",
    "spark.executor.heartbeat.maxFailures": "3",
    "spark.network.timeout": "60s",
}


def cluster_settings(worker: Mapping[str, str]) -> dict[str, str]:
    """Return the default settings for a cluster, which the worker's `spark.*` settings override.

    May resolve the master's host name.
    """
    master = get_master(worker)
    settings = dict(_DEFAULTS)
    if master.startswith(_LOCAL_CLUSTER):
        loopback = {DRIVER_HOST: "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return settings | loopback | {_SECRET: secrets.token_hex(32)}
    # Executors can reach the address from which the master is reached; by default, Spark uses the host name's address.
    if "SPARK_LOCAL_IP" not in os.environ and (address := _local_address(master)) is not None:
        settings[DRIVER_HOST] = worker.get(DRIVER_HOST, address)
        settings["spark.driver.bindAddress"] = worker.get(DRIVER_HOST, address)
    return settings


def executor_options(worker: Mapping[str, str]) -> str:
    """Return the Java options of executors: the worker's client restrictions, and the configured options."""
    restrictions = [f'"-D{name}={value}"' for name, value in java_properties(worker).items()]
    return " ".join([*restrictions, worker.get(_EXECUTOR_OPTIONS, "")]).strip()


def executor_python(worker: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> str:
    """Return the executors' Python executable: `spark.pyspark.python`, PYSPARK_PYTHON, or this process's executable."""
    return worker.get(_PYTHON) or environment.get("PYSPARK_PYTHON") or sys.executable


def _local_address(master: str) -> str | None:
    """Return the local address of the route to a standalone master; None without a route. Sends no packets."""
    if not is_standalone({"spark.master": master}):
        return None
    for host, port in standalone_masters(master):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((host, port))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None
