"""Numbered lines that are copied with a Spark cluster from files to a topic, and from there to files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kraal.testing.process import WorkerProcess
from tests.integration.spark_cluster.place import Place, until

COUNT: Final = 5_000
"""The number of lines per file."""
BACK_S: Final = 240.0


class Flow:
    """Two connectors, `NAME-in` and `NAME-out`, on a separate standalone worker."""

    def __init__(
        self,
        place: Place,
        name: str,
        worker: Mapping[str, str] | None = None,
        *,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """Start the worker and the connectors, and write the first lines.

        Args:
            place: the cluster and the broker.
            name: of the worker and the topic.
            worker: its properties.
            overrides: settings of both connectors.
        """
        self.place, self.topic, self.written = place, name, 0
        self.connectors = (f"{name}-in", f"{name}-out")
        self.worker: WorkerProcess = place.worker(name, worker)
        self.worker.start()
        self.source, self.target = place.shared(f"{name}-in"), place.shared(f"{name}-out")
        common = {"spark.format": "text", **(overrides or {})}
        self.write()
        source = {"connector.class": "SparkSource", "path": str(self.source), "topic": name, **common}
        self.worker.create(self.connectors[0], {"file.batch.bytes": "20000", **source})
        sink = {"connector.class": "SparkSink", "path": str(self.target), "topics": name, **common}
        self.worker.create(self.connectors[1], sink)

    def write(self) -> None:
        """Add a file with further lines."""
        numbers = range(self.written, self.written + COUNT)
        hidden = self.source / f".{self.written:08d}"
        hidden.write_text("".join(f"{number:08d} and some more text\n" for number in numbers))
        hidden.rename(self.source / hidden.name.removeprefix("."))
        self.written += COUNT

    def wait_until_flowing(self, more: int = 500) -> None:
        """Wait until `more` further lines are in the sink's files."""
        before = len(self.found())
        until(lambda: len(self.found()) >= before + more, "lines flowed", BACK_S)

    def found(self) -> Counter[int]:
        """Return the number of occurrences of each line in the sink's files."""
        return Counter(
            int(line[:8])
            for file in self.target.iterdir()
            if file.is_file() and not file.name.startswith(".")
            for line in file.read_text().splitlines()
        )

    def wait_until_through(self) -> None:
        """Wait until all lines are in the sink's files, and check that each record of the topic is there once."""
        self.worker.wait_until(
            "the files contained all lines", lambda: len(self.found()) == self.written, timeout_s=BACK_S
        )
        for name in self.connectors:
            self.worker.wait_for_states(name, ["RUNNING", "RUNNING"])
        values = [int(value[:8]) for value in self.place.values(self.topic)]
        assert set(values) == set(range(self.written))
        self.worker.wait_until(
            "the files contained the repeated lines",
            lambda: self.found() == Counter(values),
            timeout_s=BACK_S,
        )
        firsts = list(dict.fromkeys(values))
        assert firsts == sorted(firsts), "the first copies of the lines are in order"
