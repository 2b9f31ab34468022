"""Two connectors on a Spark cluster that copy numbered lines from files to a topic, and from the topic to files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from kraal.testing.process import WorkerProcess
from tests.integration.spark_cluster.environment import SparkEnvironment, wait_until

LINES_PER_FILE: Final = 5_000
RECOVERY_TIMEOUT_S: Final = 240.0


class Flow:
    """Two connectors, `NAME-in` and `NAME-out`, on a separate standalone worker."""

    def __init__(
        self,
        environment: SparkEnvironment,
        name: str,
        properties: Mapping[str, str] | None = None,
        *,
        overrides: Mapping[str, str] | None = None,
    ) -> None:
        """Start the worker and the connectors, and write the first lines.

        Args:
            environment: the cluster and the broker.
            name: the name of the worker and of the topic.
            properties: the properties of the worker.
            overrides: settings of both connectors.
        """
        self.environment, self.topic, self.line_count = environment, name, 0
        self.connectors = (f"{name}-in", f"{name}-out")
        self.worker: WorkerProcess = environment.worker(name, properties)
        self.worker.start()
        self.source, self.target = (
            environment.create_shared_folder(f"{name}-in"),
            environment.create_shared_folder(f"{name}-out"),
        )
        common = {"spark.format": "text", **(overrides or {})}
        self.write()
        source = {"connector.class": "SparkSource", "path": str(self.source), "topic": name, **common}
        self.worker.create(self.connectors[0], {"file.batch.bytes": "20000", **source})
        sink = {"connector.class": "SparkSink", "path": str(self.target), "topics": name, **common}
        self.worker.create(self.connectors[1], sink)

    def write(self) -> None:
        """Add a file with further lines."""
        numbers = range(self.line_count, self.line_count + LINES_PER_FILE)
        hidden_file = self.source / f".{self.line_count:08d}"
        hidden_file.write_text("".join(f"{number:08d} and some more text\n" for number in numbers))
        hidden_file.rename(self.source / hidden_file.name.removeprefix("."))
        self.line_count += LINES_PER_FILE

    def wait_until_flowing(self, count: int = 500) -> None:
        """Wait until `count` further lines are in the sink's files."""
        count_before = len(self.count_lines())
        wait_until(
            lambda: len(self.count_lines()) >= count_before + count, "lines arrived", RECOVERY_TIMEOUT_S
        )

    def count_lines(self) -> Counter[int]:
        """Return the number of occurrences of each line in the sink's files."""
        return Counter(
            int(line[:8])
            for file in self.target.iterdir()
            if file.is_file() and not file.name.startswith(".")
            for line in file.read_text().splitlines()
        )

    def wait_until_through(self) -> None:
        """Wait until all lines are in the sink's files, with as many copies as in the topic."""
        self.worker.wait_until(
            "the files contained all lines",
            lambda: len(self.count_lines()) == self.line_count,
            timeout_s=RECOVERY_TIMEOUT_S,
        )
        for name in self.connectors:
            self.worker.wait_for_states(name, ["RUNNING", "RUNNING"])
        values = [int(value[:8]) for value in self.environment.values(self.topic)]
        assert set(values) == set(range(self.line_count))
        self.worker.wait_until(
            "the files contained the duplicate lines",
            lambda: self.count_lines() == Counter(values),
            timeout_s=RECOVERY_TIMEOUT_S,
        )
        first_copies = list(dict.fromkeys(values))
        assert first_copies == sorted(first_copies), "the first copies of the lines must be in order"
