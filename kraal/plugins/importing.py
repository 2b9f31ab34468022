"""One import of large packages at a time.

Two threads that import modules of one package at once may each wait for a module that the other is importing. Python
then gives one of them a module that is half there: `import pyspark` fails so while another thread imports
`pyspark.sql.functions`. Spark's thread and whatever loads plugins, which import Spark too, therefore take turns.
"""

from __future__ import annotations

from threading import RLock

ONE_AT_A_TIME = RLock()
"""Held while plugins or Spark are imported; any thread. An import may load further plugins."""
