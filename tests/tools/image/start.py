"""Measures the time until REST is available in a new container of the image.

`python -m tests.tools.image.start` builds the image and prints the durations of several starts. The machine should
be otherwise idle.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import psutil

from kraal.broker.broker import Broker, free_port
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.rest import Rest
from tests.tools.image.build import build_image
from tests.tools.image.container import Container, container
from tests.tools.image.worker import write_properties

MODES: Final = ("standalone", "distributed")
START_TIMEOUT_S: Final = 120.0
POLL_INTERVAL_S: Final = 0.005
_STANDALONE: Final = {"offset.storage.file.filename": "/var/lib/kraal/offsets"}


@dataclass(frozen=True, slots=True)
class Start:
    """The duration of a start."""

    seconds: float
    """Seconds from the start of the container to the first response."""
    waited_s: float
    """Maximum seconds for which a thread of the worker waited for a core because of other load."""

    @property
    def unloaded_s(self) -> float:
        """Approximate seconds of the start on an idle machine."""
        return self.seconds - self.waited_s


def measure_starts(target: Container, broker: Broker, mode: str, times: int) -> Iterator[Start]:
    """Start a worker several times and yield the duration of each start.

    A start that is not measured precedes them. It caches files and creates the topics of a distributed worker.
    """
    port = free_port()
    properties_directory = write_properties(target.directory / f"etc-{mode}", broker, port, _STANDALONE)
    _start(target, properties_directory, mode, port)
    for _ in range(times):
        yield _start(target, properties_directory, mode, port)


def _start(target: Container, properties_directory: Path, mode: str, port: int) -> Start:
    start_s = time.monotonic()
    arguments = (mode, "/etc/kraal/worker.properties")
    with (
        target.run_entry_point({properties_directory: "/etc/kraal"}, *arguments) as process,
        closing(Rest(port)) as rest,
    ):
        wait_until(
            "the worker was up",
            lambda: rest.is_up() or process.poll() is not None,
            timeout_s=START_TIMEOUT_S,
            every_s=POLL_INTERVAL_S,
        )
        if process.poll() is not None:
            raise ScriptFailed(f"The worker exited: {(target.directory / 'log').read_text(errors='replace')}")
        return Start(time.monotonic() - start_s, max(_yield_waits_s(process.pid)))


def _yield_waits_s(pid: int) -> Iterator[float]:
    """Yield the seconds for which each thread of the Python child processes has waited for a core."""
    for process in psutil.Process(pid).children(recursive=True):
        if process.name() != "java":
            for thread in Path(f"/proc/{process.pid}/task").iterdir():
                with suppress(OSError):  # the thread has exited
                    yield int((thread / "schedstat").read_text(encoding="ascii").split()[1]) / 1e9


@click.command()
@click.option("--times", type=click.IntRange(1), default=5, show_default=True, help="Starts of each mode.")
@click.option("--image", help="Existing image. Default: build the image.")
def main(times: int, image: str | None) -> None:
    """Print the seconds until REST is available."""
    with tempfile.TemporaryDirectory() as directory:
        broker = Broker(Path(directory) / "kafka", free_port())
        broker.start()
        try:
            home = Path(directory) / "container"
            home.mkdir()
            with container(image or build_image(), home) as target:
                for mode in MODES:
                    seconds = sorted(start.seconds for start in measure_starts(target, broker, mode, times))
                    median = statistics.median(seconds)
                    click.echo(f"{mode:12} {median:.2f} ({seconds[0]:.2f} to {seconds[-1]:.2f}; {times})")
        finally:
            broker.stop()


if __name__ == "__main__":
    try:
        main()
    except ScriptFailed as failure:
        sys.exit(str(failure))
