"""How soon REST answers in a new container of the image.

`python -m tests.tools.image.start` builds the image and prints the seconds of several starts. Nothing else should run.
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
from tests.tools.image.build import built
from tests.tools.image.container import Container, container
from tests.tools.image.worker import properties

MODES: Final = ("standalone", "distributed")
UP_S: Final = 120.0
EVERY_S: Final = 0.005
_STANDALONE: Final = {"offset.storage.file.filename": "/var/lib/kraal/offsets"}


@dataclass(frozen=True, slots=True)
class Start:
    """How long a start took, in seconds."""

    seconds: float
    """From the start of the runtime to the first answer."""
    waited_s: float
    """For how long of it the thread of the worker that waited most for a core, because others had it, did so."""

    @property
    def undisturbed_s(self) -> float:
        """About what the start takes on a machine that does nothing else."""
        return self.seconds - self.waited_s


def starts(made: Container, broker: Broker, mode: str, times: int) -> Iterator[Start]:
    """Start a worker several times, once for each element that is asked for.

    The first start is not counted: it brings the files into memory, and makes the topics of a distributed worker.
    """
    port = free_port()
    etc = properties(made.directory / f"etc-{mode}", broker, port, _STANDALONE)
    _start(made, etc, mode, port)
    for _ in range(times):
        yield _start(made, etc, mode, port)


def _start(made: Container, etc: Path, mode: str, port: int) -> Start:
    begun = time.monotonic()
    arguments = (mode, "/etc/kraal/worker.properties")
    with made.started({etc: "/etc/kraal"}, *arguments) as process, closing(Rest(port)) as rest:
        wait_until(
            "the worker answered", lambda: rest.answers() or process.poll() is not None, timeout_s=UP_S, every_s=EVERY_S
        )  # fmt: skip
        if process.poll() is not None:
            raise ScriptFailed(f"The worker ended: {(made.directory / 'log').read_text(errors='replace')}")
        return Start(time.monotonic() - begun, max(_waits_s(process.pid)))


def _waits_s(pid: int) -> Iterator[float]:
    """Yield how long each thread of the Python processes below a process has waited for a core."""
    for each in psutil.Process(pid).children(recursive=True):
        if each.name() != "java":
            for thread in Path(f"/proc/{each.pid}/task").iterdir():
                with suppress(OSError):  # it has ended
                    yield int((thread / "schedstat").read_text(encoding="ascii").split()[1]) / 1e9


@click.command()
@click.option("--times", type=click.IntRange(1), default=5, show_default=True, help="Starts of each mode.")
@click.option("--image", help="Image that exists already. Default: build it.")
def main(times: int, image: str | None) -> None:
    """Print how soon REST answers, in seconds."""
    with tempfile.TemporaryDirectory() as place:
        broker = Broker(Path(place) / "kafka", free_port())
        broker.start()
        try:
            home = Path(place) / "container"
            home.mkdir()
            with container(image or built(), home) as made:
                for mode in MODES:
                    seconds = sorted(each.seconds for each in starts(made, broker, mode, times))
                    median = statistics.median(seconds)
                    click.echo(f"{mode:12} {median:.2f} ({seconds[0]:.2f} to {seconds[-1]:.2f}; {times})")
        finally:
            broker.stop()


if __name__ == "__main__":
    try:
        main()
    except ScriptFailed as failure:
        sys.exit(str(failure))
