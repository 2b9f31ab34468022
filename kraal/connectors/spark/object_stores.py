"""Recognizes paths in object stores, and checks that Spark in this process has the jars to access them.

Kraal does not ship a client for object stores: Hadoop's client for `s3a:` needs an SDK of several hundred megabytes. A
worker calls `register_jars` once at startup, with the jars of its plugin lock and of `spark.jars`; validation depends
on these jars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HADOOP_VERSION: Final = "3.5.0"
"""The version of Hadoop that PySpark ships; hadoop-aws must have the same version."""
_MODULE: Final = "hadoop-aws"
_SCHEME: Final = "s3a:"
_URL_PATTERN: Final = re.compile(r"s3a://[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9](?:/[^\x00-\x1f]*)?")
_registered_schemes: set[str] = set()
"""Schemes that Spark can read and write on this worker; changes only during startup."""


def register_jars(jars: Iterable[str]) -> None:
    """Register the URL schemes that Spark's jars support. Must be called once, before any validation.

    `jars` are files, URLs or Maven coordinates.
    """
    if any(re.search(rf"(?:^|/|__|:){_MODULE}(?:__|-|:)\d[^/]*$", jar) for jar in jars):
        _registered_schemes.add(_SCHEME)


def is_object_path(text: str) -> bool:
    """Return whether a path is in an object store."""
    return text.startswith(_SCHEME)


def normalize_object_url(text: str) -> str:
    """Return the URL without trailing slashes. Raises ValueError if it is invalid or Spark lacks the jars."""
    if not _URL_PATTERN.fullmatch(text):
        raise ValueError("it must be s3a://BUCKET/…")
    if _SCHEME not in _registered_schemes:
        raise ValueError(
            f"this worker's Spark has no {_MODULE}: run kraal plugins add org.apache.hadoop:{_MODULE}:{HADOOP_VERSION}"
            ", and start the worker with that lock"
        )
    return text.rstrip("/")
