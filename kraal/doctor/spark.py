"""Checks of a Spark cluster, if the worker's file names one."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping

from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.subject import Subject

_MASTER = "spark.master"
_STANDALONE = "spark://"
_LOCAL_MASTER = re.compile(r"local(\[[^\]]*\])?")
_UNCHECKED_MASTER = re.compile(r"local-cluster\[[^\]]*\]$|k8s://|yarn$")
_CONNECT_TIMEOUT_S = 3.0


def check_spark(subject: Subject) -> Iterator[Finding]:
    """Check the master without starting Spark."""
    if subject.config is None:
        return
    spark = subject.config.spark
    master = spark.get(_MASTER, "local[*]")
    if _LOCAL_MASTER.fullmatch(master):
        yield passed("spark.master", f"Spark runs in this machine's JVM ({master})")
    elif master.startswith(_STANDALONE):
        yield check_reachable(master)
        yield check_secret(spark)
    elif _UNCHECKED_MASTER.match(master):
        yield Finding("spark.master", Level.SKIPPED, f"The reachability of {master} is not checked")
    else:
        fix = f"Set {_MASTER} to local[*], local[N], spark://HOST:PORT, k8s://URL or yarn."
        yield Finding("spark.master", Level.ERROR, f"{_MASTER}={master} is not a master URL of Spark", fix)


def check_reachable(master: str) -> Finding:
    """Check that at least one master of a standalone cluster is reachable."""
    failures: list[str] = []
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_TIMEOUT_S):
                return passed("spark.master", f"{address} accepts connections")
        except (OSError, ValueError) as exc:
            failures.append(f"{address} ({exc})")
    what = f"No master of {master} accepts connections: {', '.join(failures)}"
    return Finding("spark.master", Level.ERROR, what, f"Start the master, or correct {_MASTER}.")


def check_secret(spark: Mapping[str, str]) -> Finding:
    """Check whether the cluster requires a secret; a missing secret is an error of the worker's config."""
    if spark.get("spark.authenticate", "true") == "false":
        what = "spark.authenticate=false: any program that reaches the cluster's ports can run code in it"
        fix = "Set spark.authenticate.secret for the cluster and for the worker."
        return Finding("spark.secret", Level.WARNING, what, fix)
    return passed("spark.secret", "spark.authenticate.secret is set")
