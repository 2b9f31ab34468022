"""Connects a lane to the JVM: starts its Spark task (`java/Lane.java`), and transfers rows and results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraal.engine.session.janino import load_class
from kraal.engine.session.jobs import job_group

if TYPE_CHECKING:
    from kraal.engine.session.session import Spark

_CLASS: Final = "kraal.Lane"
_POLL_TIMEOUT_MS: Final = 10_000
READY: Final = 0
"""The number of the result that reports the start of the Spark task."""
ENDED: Final = -1
"""The number of the last result, which reports the end of the Spark task."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class LaneResult:
    """The result of a batch; `error` is None if all its records were acknowledged."""

    number: int
    error: str | None
    acknowledged: int | None = None
    """Number of acknowledged records; None if the batch failed."""


def parse_result(line: str) -> LaneResult:
    """Parse a result from the JVM: `NUMBER:ACKNOWLEDGED`, or `NUMBER ERROR` for a batch that failed."""
    name, _, error = line.partition(" ")
    number, _, acknowledged = name.partition(":")
    return LaneResult(int(number), error or None, int(acknowledged) if acknowledged else None)


class LaneBridge:
    """The connection of one lane. The methods call the JVM, so they must be called on threads that may block."""

    def __init__(self, spark: Spark) -> None:
        """Submit the Spark task; `results` reports its start. Raises py4j's and Spark's errors."""
        context: Any = spark.session.sparkContext
        self._jvm = context._jvm
        name = f"lane-{next(_numbers)}"
        lane = load_class(context, _CLASS).getConstructors()[0].newInstance(self._object_array(context, name))
        self._lane = lane
        self._defined_producers: set[str] = set()
        with job_group(spark, pool="lane", group=name, description="a lane for small batches"):
            names = self._jvm.java.util.ArrayList()
            names.add(name)
            self._job = context._jsc.parallelize(names, 1).foreachPartitionAsync(lane)

    def push(self, producer: str, configs: Mapping[str, str], stream: bytes) -> None:
        """Pass rows to the Spark task; `producer` is the name of the producer with these configs."""
        if producer not in self._defined_producers:
            properties = self._jvm.java.util.HashMap()
            for key, value in configs.items():
                properties.put(key, value)
            self._lane.define(producer, properties)
            self._defined_producers.add(producer)
        self._lane.push(producer, bytearray(stream))

    def results(self) -> Iterator[LaneResult]:
        """Yield results until the Spark task has ended.

        Raises RuntimeError if the job has ended but its task has not: Spark cancels a job without waiting for its
        tasks.
        """
        while True:
            text = str(self._lane.take(_POLL_TIMEOUT_MS))
            if not text and self._job.isDone():
                message = "its Spark job has ended, but the job's task has not reported its end"
                raise RuntimeError(message)
            for line in filter(None, text.split("\n")):
                result = parse_result(line)
                yield result
                if result.number == ENDED:
                    return

    def discard(self, producer: str | None) -> None:
        """Close a producer (None for all) and drop its unsent records; their batches fail."""
        self._lane.discard(producer)

    def remove_producer(self, producer: str) -> None:
        """Close a producer that no task uses any longer. Its name must not be reused."""
        self._defined_producers.discard(producer)
        self._lane.forget(producer)

    def end(self) -> None:
        """Stop the Spark task, and drop all unsent records."""
        self._lane.end()
        self._job.cancel(True)  # noqa: FBT003 - Java's flag: the task may be interrupted

    def _object_array(self, context: Any, *values: object) -> Any:
        """Return a Java array of the values."""
        array = context._gateway.new_array(self._jvm.java.lang.Object, len(values))
        for index, value in enumerate(values):
            array[index] = value
        return array
