"""Sends code to the executors of a cluster, checks their Python, and counts the executors.

Must be used on the session's thread.
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

PRODUCERS_PLUGIN: Final = "kraal.ExecutorProducers"
_PLUGINS: Final = "spark.plugins"
_POLL_INTERVAL_S: Final = 0.1
_START_REPORT_DELAY_S: Final = 3.0
"""Time after which a wait for executors is reported; executors usually start within this time."""
MAX_ABSENCE_S: Final = 60.0
"""After this time without an executor, Spark is restarted."""


class ExecutorsUnusable(KraalError):
    """Executors are not available or cannot run Kraal's code; the message contains the reason."""


def with_producers_plugin(jvm: Any, settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the settings with the Spark plugin that closes producers in executors (`kafka_io.producers`).

    Must be called before there is a SparkContext. The plugin's classes are compiled into `folder`.
    """
    jars = map(str, compile_class(jvm, PRODUCERS_PLUGIN, folder))
    plugins = [settings[_PLUGINS]] if settings.get(_PLUGINS) else []
    return {
        **settings,
        _PLUGINS: ",".join([*plugins, PRODUCERS_PLUGIN]),
        "spark.jars": ",".join(filter(None, [settings.get("spark.jars", ""), *jars])),
    }


def send_code(session: SparkSession, folder: Path) -> None:
    """Send the code of Kraal and of its plugins to executors, as an archive in `folder`."""
    archive = folder / code_archive.NAME
    skipped_packages = code_archive.write_code(archive, code_archive.packages())
    for name in skipped_packages:
        log.warning(
            "The package %s must be installed on executors: it has native modules, which are not sent", name
        )
    session.sparkContext.addPyFile(str(archive))


def await_executor(
    session: SparkSession, master: str, report_wait: Callable[[str], None], is_cancelled: Callable[[], bool]
) -> None:
    """Wait until there is an executor; `report_wait` receives the reason for a longer wait.

    Raises ExecutorsUnusable if the cluster stopped the application, which also happens if no executor can start.
    """
    start_s, has_reported = time.monotonic(), False
    while not count_executors(session) and not is_cancelled():
        if is_stopped(session):
            raise ExecutorsUnusable(
                f"{master} rejected the application, or stopped it. Check that the master is reachable and has the "
                "same spark.authenticate.secret; see the master's log, the worker's spark.log and the executors' logs"
            )
        if not has_reported and time.monotonic() - start_s > _START_REPORT_DELAY_S:
            has_reported = True
            report_wait(
                f"Waiting for executors of {master}; its cores or memory may be in use by other applications"
            )
        time.sleep(_POLL_INTERVAL_S)


def count_executors(session: SparkSession) -> int:
    """Return the number of executors."""
    context: Any = session.sparkContext
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1


def is_stopped(session: SparkSession) -> bool:
    """Return whether the SparkContext has stopped, for example because the master removed the application."""
    context: Any = session.sparkContext
    return bool(context._jsc.sc().isStopped())


def check_executors(session: SparkSession, worker: Mapping[str, str]) -> None:
    """Check that the current executors can run Kraal's code and see a file in each shared folder.

    Raises ExecutorsUnusable, and Spark's errors.
    """
    python = executor_python(worker)
    task_count = 2 * max(1, count_executors(session))
    with create_markers(shared_paths(worker)) as markers:
        checks = partial(find_problems, markers=markers)
        frame = map_in_arrow(session.range(0, task_count, 1, task_count), checks, "problem string")
        try:
            failures = {row["problem"] for row in frame.toArrow().to_pylist()}
        except Exception as error:
            if (reason := explain_python_error(str(error), python)) is None:
                raise
            raise ExecutorsUnusable(reason) from error
    if failures:
        raise ExecutorsUnusable(f"Executors ({python}) are not usable: {'; '.join(sorted(failures))}")


@contextlib.contextmanager
def create_markers(folders: Sequence[str]) -> Iterator[list[str]]:
    """Create a file in each folder, and remove the files after the block. Raises ExecutorsUnusable if this fails."""
    markers: list[str] = []
    try:
        for folder in folders:
            try:
                descriptor, path = tempfile.mkstemp(prefix=".kraal-shared-", dir=folder)
            except OSError as error:
                why = f"the worker cannot write to {folder} of {SHARED_PATHS}: {error}"
                raise ExecutorsUnusable(why) from error
            os.close(descriptor)
            markers.append(path)
        yield markers
    finally:
        for path in markers:
            Path(path).unlink(missing_ok=True)


def find_problems(batches: Iterator[pa.RecordBatch], markers: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """In an executor, import the modules that batches require, and check for the markers; yield error messages."""
    import importlib  # noqa: PLC0415 - runs in executors

    import pyarrow as pa  # noqa: PLC0415 - as above

    for _ in batches:
        pass
    unseen_markers = [path for path in map(Path, markers) if not path.exists()]
    errors = [f"they cannot access the worker's {path.parent}" for path in unseen_markers]
    for name in ("kraal.engine.records.source_pass", "kraal.engine.records.sink_pass"):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - the worker reports it
            text = f"{type(error).__name__}: {error}"
            errors.append(
                f"they cannot import a module that Kraal requires; install it on the executors: {text}"
            )
    yield pa.RecordBatch.from_pydict({"problem": pa.array(errors, pa.string())})


def explain_python_error(text: str, python: str) -> str | None:
    """Return the problem with the executors' Python that caused an error of Spark; None for any other error."""
    if f'Cannot run program "{python}"' in text:
        return f"Executors have no {python}; set spark.pyspark.python to the path of their Python"
    if "PYTHON_VERSION_MISMATCH" in text:
        line = next(line for line in text.splitlines() if "PYTHON_VERSION_MISMATCH" in line)
        return f"Executors have a different version of Python ({python}): {line.strip()}"
    for module in ("pyarrow", "kraal"):
        if f"No module named '{module}'" in text:
            return f"Executors cannot import {module}; install it for {python} on the executors"
    return None


class ExecutorWatch:
    """Decides whether a running session has lost its cluster. Not thread-safe."""

    def __init__(self, session: SparkSession, clock: Callable[[], float] = time.monotonic) -> None:
        """Create a watch for a session that has executors; `clock` returns monotonic seconds."""
        self._count_executors, self._is_stopped = (
            partial(count_executors, session),
            partial(is_stopped, session),
        )
        self._clock = clock
        self._last_executor_s = clock()

    def loss_reason(self) -> str | None:
        """Return why the session is no longer usable; None if it is usable."""
        if self._is_stopped():
            return "the cluster stopped the application"
        if self._count_executors():
            self._last_executor_s = self._clock()
        elif self._clock() - self._last_executor_s > MAX_ABSENCE_S:
            return f"there was no executor for {MAX_ABSENCE_S:.0f} s"
        return None
