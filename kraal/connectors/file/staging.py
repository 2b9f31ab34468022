"""Staging directories, in which Spark writes the files of a batch before they are moved into place.

Each run of a task has a separate directory, and never removes the directory of an active run: a run that was abandoned,
or whose worker was frozen, may still be writing. Directories of killed runs are removed by age. A batch counts as
written only if Spark marked it complete (`_SUCCESS`), the size of its part files equals the bytes that Spark's tasks
report, and the number of rows that they report is as expected. These checks do not read the files. If Spark has no
report, only `_SUCCESS` is checked.
"""

from __future__ import annotations

import glob
import logging
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraal.engine.session.task_totals import TaskTotals, read_totals, tag_jobs
from kraal.plugins.api import RetriableError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrameWriter

log = logging.getLogger(__name__)

STALE_AFTER_S: Final = 24 * 3600.0
"""Age after which an unmodified directory is assumed not to belong to an active run."""
_REPORT_TIMEOUT_S: Final = 2.0
"""Maximum time to wait for Spark's report after a job ends."""
_POLL_INTERVAL_S: Final = 0.002
_SUCCESS_FILE: Final = "_SUCCESS"
_WRITE_SUCCESS_FILE: Final = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


class Staging:
    """The staging directory of one run. Not thread-safe."""

    def __init__(self, parent: Path, prefix: str = "") -> None:
        """Choose a new directory in `parent` with this name prefix; remove stale directories with the same prefix."""
        self.directory = parent / f"{prefix}{uuid.uuid4().hex}"
        for directory in parent.glob(f"{glob.escape(prefix)}*"):
            _remove_if_stale(directory)

    @contextmanager
    def make_batch_directory(self) -> Iterator[Path]:
        """Yield the path of a directory for one batch, which Spark creates; remove the directory afterwards."""
        path = self.directory / uuid.uuid4().hex
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Remove the run's directory."""
        shutil.rmtree(self.directory, ignore_errors=True)


def save(
    writer: DataFrameWriter,
    context: SparkContext,
    directory: Path,
    *,
    max_rows: int,
    records: int | None = None,
) -> int | None:
    """Write files to a local directory with Spark, and verify that they are complete.

    `records` is the exact number of rows; None if only the upper limit `max_rows` is known. Returns the number of rows
    that Spark's tasks report, or None if Spark has no report. Raises RetriableError if the files are incomplete;
    Spark's errors propagate. Runs on the job thread.
    """
    with tag_jobs(context) as tag:
        # No URL encoding: Hadoop does not decode %20.
        writer.option(_WRITE_SUCCESS_FILE, "true").save(f"file://{directory}")
    return check_complete(directory, partial(read_totals, context, tag), max_rows=max_rows, records=records)


def check_complete(
    directory: Path, read_report: Callable[[], TaskTotals | None], *, max_rows: int, records: int | None
) -> int | None:
    """Raise RetriableError unless a job's files are complete; return the number of rows in the report, if there is one.

    `read_report` returns the current report of the job, or None if Spark does not have it. It is called until the
    report matches the files or the timeout expires.
    """
    if not (directory / _SUCCESS_FILE).is_file():
        raise RetriableError(
            f"{directory} has no {_SUCCESS_FILE}: another process removed the files that Spark wrote"
        )
    size = sum(part.stat().st_size for part in directory.rglob("part-*"))
    deadline_s = time.monotonic() + _REPORT_TIMEOUT_S
    while (report := read_report()) is None or report.output_bytes != size:
        if time.monotonic() >= deadline_s:
            if report is None:
                log.debug("Spark has no report of the job that wrote %s", directory)
                return None
            raise RetriableError(f"{directory} has {size} bytes, but Spark wrote {report.output_bytes}")
        time.sleep(_POLL_INTERVAL_S)
    if report.output_records > max_rows or (records is not None and report.output_records != records):
        expected = f"at most {max_rows}" if records is None else str(records)
        raise RetriableError(f"Spark wrote {report.output_records} rows to {directory}; expected {expected}")
    return report.output_records


def _remove_if_stale(directory: Path) -> None:
    """Remove a directory that has not been modified for `STALE_AFTER_S`."""
    try:
        changed_s = max(path.lstat().st_mtime for path in (directory, *directory.rglob("*")))
    except OSError:
        return  # a running task is still changing the directory
    if time.time() - changed_s >= STALE_AFTER_S:
        log.info("Removing the stale staging directory %s of a killed run", directory)
        shutil.rmtree(directory, ignore_errors=True)
