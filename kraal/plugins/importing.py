"""Imports large packages one at a time.

Two threads that import modules of the same package concurrently can each wait for a module that the other imports.
One of the threads then receives a partially initialized module. For example, `import pyspark` fails while another
thread imports `pyspark.sql.functions`. Spark's thread and plugin loading, which imports Spark too, share a lock.
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock

IMPORT_LOCK = RLock()
"""Held while plugins or Spark are imported, on any thread. Reentrant because an import may load further plugins."""


def import_spark() -> None:
    """Import PySpark, which takes about a second, while no other thread imports parts of PySpark.

    Later imports of PySpark's submodules then need no lock.
    """
    with IMPORT_LOCK:
        import_module("pyspark")
