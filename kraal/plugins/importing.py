"""A lock that serializes imports of large packages.

Two threads that import modules of the same package concurrently can each wait for a module that the other imports.
Python then hands one of them a partially initialized module: `import pyspark` fails this way while another thread
imports `pyspark.sql.functions`. Spark's thread and plugin loading, which also imports Spark, therefore share a lock.
"""

from __future__ import annotations

from threading import RLock

ONE_AT_A_TIME = RLock()
"""Held while plugins or Spark are imported, on any thread. Reentrant because an import may load further plugins."""
