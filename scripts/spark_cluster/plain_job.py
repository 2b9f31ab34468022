"""A Spark application without Kraal that copies lines of files into topics on request.

Arguments: a JSON file with Spark's settings, and a directory of requests. For each file NAME.json there,
`{"path": …, "options": …}`, it runs one job and writes the duration in seconds to NAME.done. The file `end` stops it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession


def main(settings: Path, orders: Path) -> None:
    """Execute requests until the file `end` exists."""
    conf = SparkConf().setAll(list(json.loads(settings.read_text()).items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    (orders / "up").touch()
    while not (orders / "end").exists():
        for order in sorted(orders.glob("*.json")):
            done = order.with_suffix(".done")
            if not done.exists():
                content = json.loads(order.read_text())
                began = time.monotonic()
                lines = spark.read.text(content["path"])
                lines.write.format("kafka").options(**content["options"]).save()
                seconds = order.with_suffix(".seconds")
                seconds.write_text(f"{time.monotonic() - began}")
                seconds.rename(done)
        time.sleep(0.02)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
