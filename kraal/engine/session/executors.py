"""The executors of a cluster: their code, a check of their Python, and their number.

Session's thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kraal.config.spark_master import SHARED_PATHS, shared_paths
from kraal.core.errors import KraalError
from kraal.engine.session import code_archive
from kraal.engine.session.arrow import map_in_arrow
from kraal.engine.session.cluster import executor_python
from kraal.engine.session.janino import compile_class

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

GUARD: Final = "kraal.ExecutorProducers"
_PLUGINS: Final = "spark.plugins"
_POLL_INTERVAL_S: Final = 0.1
_START_REPORT_DELAY_S: Final = 3.0
"""How long executors usually take to start."""
MAX_ABSENCE_S: Final = 60.0
"""After this time without an executor, Spark starts again, and tasks wait for it."""


class ExecutorsUnusable(KraalError):
    """Executors cannot run Kraal's code; the message lists the packages to install there."""


def with_guard(jvm: Any, settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the settings with the Spark plugin that ends producers in executors (`kafka_io.producers`).

    Before there is a SparkContext; its classes are compiled into `folder`.
    """
    jars = map(str, compile_class(jvm, GUARD, folder))
    plugins = [settings[_PLUGINS]] if settings.get(_PLUGINS) else []
    return {
        **settings,
        _PLUGINS: ",".join([*plugins, GUARD]),
        "spark.jars": ",".join(filter(None, [settings.get("spark.jars", ""), *jars])),
    }


def send_code(session: SparkSession, folder: Path) -> None:
    """Let executors import Kraal and the plugins, from an archive in `folder`."""
    archive = folder / code_archive.NAME
    skipped = code_archive.write_code(archive, code_archive.packages())
    for name in skipped:
        log.warning(
            "Executors need the package %s installed: it has native modules, which are not sent", name
        )
    session.sparkContext.addPyFile(str(archive))


def await_executor(
    session: SparkSession, master: str, waits: Callable[[str], None], give_up: Callable[[], bool]
) -> None:
    """Return when there is an executor; `waits` receives the reason for a longer wait.

    Raises ExecutorsUnusable if the cluster ended the application, which it also does when no executor can start.
    """
    began, reported = time.monotonic(), False
    while not count(session) and not give_up():
        if is_stopped(session):
            raise ExecutorsUnusable(
                f"{master} did not accept the application, or ended it: is it reachable, with this "
                "spark.authenticate.secret? Its log, the worker's spark.log and the executors' logs say why"
            )
        if not reported and time.monotonic() - began > _START_REPORT_DELAY_S:
            reported = True
            waits(f"Spark waits for executors of {master}: are its cores and memory in use by others?")
        time.sleep(_POLL_INTERVAL_S)


def count(session: SparkSession) -> int:
    """Return the number of executors."""
    context: Any = session.sparkContext
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def is_stopped(session: SparkSession) -> bool:
    """Whether the SparkContext has ended, for instance because the master removed the application."""
    context: Any = session.sparkContext
    return bool(context._jsc.sc().isStopped())


def check(session: SparkSession, worker: Mapping[str, str]) -> None:
    """Run Kraal's code on the present executors, and have them check for a file in each shared folder.

    Raises ExecutorsUnusable, and Spark's errors.
    """
    python = executor_python(worker)
    tasks = 2 * max(1, count(session))
    with markers_in(shared_paths(worker)) as markers:
        find_problems = partial(problems, markers=markers)
        frame = map_in_arrow(session.range(0, tasks, 1, tasks), find_problems, "problem string")
        try:
            failures = {row["problem"] for row in frame.toArrow().to_pylist()}
        except Exception as error:
            if (reason := unfit(str(error), python)) is None:
                raise
            raise ExecutorsUnusable(reason) from error
    if failures:
        raise ExecutorsUnusable(f"Executors ({python}) are not fit: {'; '.join(sorted(failures))}")


@contextlib.contextmanager
def markers_in(folders: Sequence[str]) -> Iterator[list[str]]:
    """Create a file in each folder, and remove it after the block. Raises ExecutorsUnusable if one is not writable."""
    markers: list[str] = []
    try:
        for folder in folders:
            try:
                number, path = tempfile.mkstemp(prefix=".kraal-shared-", dir=folder)
            except OSError as error:
                why = f"{SHARED_PATHS} has {folder}, where the worker cannot write: {error}"
                raise ExecutorsUnusable(why) from error
            os.close(number)
            markers.append(path)
        yield markers
    finally:
        for path in markers:
            Path(path).unlink(missing_ok=True)


def problems(batches: Iterator[pa.RecordBatch], markers: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Import the modules for batches in an executor, and check for the markers; yield problems as sentences."""
    import importlib  # noqa: PLC0415 - in executors

    import pyarrow as pa  # noqa: PLC0415 - as above

    for _ in batches:
        pass
    unseen = [path for path in map(Path, markers) if not path.exists()]
    sentences = [f"they do not see the worker's {path.parent}" for path in unseen]
    for name in ("kraal.engine.records.source_pass", "kraal.engine.records.sink_pass"):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - the worker reports it
            text = f"{type(error).__name__}: {error}"
            sentences.append(f"they cannot import what Kraal needs, install it there: {text}")
    yield pa.RecordBatch.from_pydict({"problem": pa.array(sentences, pa.string())})


def unfit(text: str, python: str) -> str | None:
    """Return the problem with the executors' Python by the text of Spark's error; None if that is not the cause."""
    if f'Cannot run program "{python}"' in text:
        return f"Executors have no {python}; set spark.pyspark.python to the path of their Python"
    if "PYTHON_VERSION_MISMATCH" in text:
        line = next(line for line in text.splitlines() if "PYTHON_VERSION_MISMATCH" in line)
        return f"Executors have another Python ({python}): {line.strip()}"
    for module in ("pyarrow", "kraal"):
        if f"No module named '{module}'" in text:
            return f"Executors cannot import {module}; install it for {python} there"
    return None


class ExecutorWatch:
    """Decides whether a running session has lost its cluster. One thread."""

    def __init__(self, session: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        """`session`: has executors; `clock` returns seconds."""
        self._count, self._stopped = partial(count, session), partial(is_stopped, session)
        self._clock = clock
        self._seen_s = clock()

    def lost(self) -> str | None:
        """Return why the session is no longer usable; None while it is."""
        if self._stopped():
            return "the cluster ended its application"
        if self._count():
            self._seen_s = self._clock()
        elif self._clock() - self._seen_s > MAX_ABSENCE_S:
            return f"it has had no executor for {MAX_ABSENCE_S:.0f} s"
        return None
