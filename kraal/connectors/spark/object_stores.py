"""Paths in object stores: recognize them, and check that this process's Spark has the jars to access them.

Kraal does not ship a client for object stores: Hadoop's client for `s3a:` needs an SDK of several hundred megabytes. A
worker with the client in its plugin lock or in `spark.jars` calls `offer` once at startup; every validation uses this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HADOOP: Final = "3.5.0"
"""The version of Hadoop that PySpark ships; hadoop-aws must have the same version."""
_MODULE: Final = "hadoop-aws"
_SCHEME: Final = "s3a:"
_ADDRESS: Final = re.compile(r"s3a://[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9](?:/[^\x00-\x1f]*)?")
_offered: set[str] = set()
"""Schemes that Spark can read and write here; grows only during startup."""


def offer(jars: Iterable[str]) -> None:
    """Register Spark's jars, given as files, URLs or coordinates. Called once, before any validation."""
    if any(re.search(rf"(?:^|/|__|:){_MODULE}(?:__|-|:)\d[^/]*$", jar) for jar in jars):
        _offered.add(_SCHEME)


def is_object_path(text: str) -> bool:
    """Return whether a path is in an object store."""
    return text.startswith(_SCHEME)


def object_address(text: str) -> str:
    """Return the URL without a trailing slash. Raises ValueError if it is invalid or if Spark lacks the jars."""
    if not _ADDRESS.fullmatch(text):
        raise ValueError("it must be s3a://BUCKET/…")
    if _SCHEME not in _offered:
        raise ValueError(
            f"this worker's Spark has no {_MODULE}: kraal plugins add org.apache.hadoop:{_MODULE}:{HADOOP}, and "
            "start the worker with that lock"
        )
    return text.rstrip("/")
