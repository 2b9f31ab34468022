"""A Spark application without Kraal that copies lines of files into topics on request.

The arguments are a JSON file with Spark's settings, and a directory of requests. A request is a file NAME.json with the
content `{"path": …, "options": …}`. For each request, the application runs one job and writes the duration in seconds
to NAME.done. The file `end` stops the application.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession


def main(settings: Path, requests: Path) -> None:
    """Execute requests until the file `end` exists."""
    conf = SparkConf().setAll(list(json.loads(settings.read_text()).items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    (requests / "up").touch()
    while not (requests / "end").exists():
        for request in sorted(requests.glob("*.json")):
            done_file = request.with_suffix(".done")
            if not done_file.exists():
                content = json.loads(request.read_text())
                start_s = time.monotonic()
                lines = spark.read.text(content["path"])
                lines.write.format("kafka").options(**content["options"]).save()
                duration_file = request.with_suffix(".seconds")
                duration_file.write_text(f"{time.monotonic() - start_s}")
                duration_file.rename(done_file)
        time.sleep(0.02)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
