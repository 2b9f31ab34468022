"""Paths in object stores: what one looks like, and whether this process's Spark has what reads and writes it.

Kraal brings no client of an object store: Hadoop's for `s3a:` needs an SDK of several hundred megabytes. A worker whose
lock of plugins or whose `spark.jars` names it says so once, as it starts (`offer`); every check of a config asks that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

HADOOP: Final = "3.5.0"
"""The version of the Hadoop that PySpark ships: another one's hadoop-aws does not go with it."""
_MODULE: Final = "hadoop-aws"
_SCHEME: Final = "s3a:"
_ADDRESS: Final = re.compile(r"s3a://[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9](?:/[^\x00-\x1f]*)?")
_offered: set[str] = set()
"""Schemes that Spark can read and write here; grows only while a process starts."""


def offer(jars: Iterable[str]) -> None:
    """Note what jars Spark has, by files, addresses or coordinates. Once, before anything is checked."""
    if any(re.search(rf"(?:^|/|__|:){_MODULE}(?:__|-|:)\d[^/]*$", jar) for jar in jars):
        _offered.add(_SCHEME)


def is_object_path(text: str) -> bool:
    """Tell whether a path is one of an object store."""
    return text.startswith(_SCHEME)


def object_address(text: str) -> str:
    """Return the address without a slash at its end. Raises ValueError for what is none, and where Spark lacks jars."""
    if not _ADDRESS.fullmatch(text):
        raise ValueError("it must be s3a://BUCKET/…")
    if _SCHEME not in _offered:
        raise ValueError(
            f"this worker's Spark has no {_MODULE}: kraal plugins add org.apache.hadoop:{_MODULE}:{HADOOP}, and "
            "start the worker with that lock"
        )
    return text.rstrip("/")
