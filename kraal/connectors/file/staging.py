"""Staging directories, in which Spark writes the files of a batch before they are moved into place.

Each run of a task has its own directory and never removes that of an active run: a run that was abandoned, or whose
worker was frozen, may still be writing. Directories of killed runs are removed by age. A batch counts as written only
if Spark marked it complete (`_SUCCESS`) and its part files have as many bytes as Spark's tasks report. Both facts are
available at no cost: nothing counts records.
"""

from __future__ import annotations

import glob
import logging
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kraal.plugins.api import RetriableError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrameWriter

log = logging.getLogger(__name__)

STALE_AFTER_S: Final = 24 * 3600.0
"""Age after which an unmodified directory cannot belong to an active run."""
_REPORT_TIMEOUT_S: Final = 2.0
"""Maximum delay of Spark's report of a job after the job's end."""
_POLL_INTERVAL_S: Final = 0.002
_SUCCESS: Final = "_SUCCESS"
_MARK: Final = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


@dataclass(frozen=True, slots=True)
class Written:
    """The number of records and bytes that Spark's tasks report for a job."""

    rows: int
    bytes: int


class Staging:
    """The staging directory of one run. Threads: one at a time."""

    def __init__(self, parent: Path, prefix: str = "") -> None:
        """Choose a directory in `parent` with a name that starts with `prefix`; remove old directories like it."""
        self.directory = parent / f"{prefix}{uuid.uuid4().hex}"
        for other in parent.glob(f"{glob.escape(prefix)}*"):
            _remove_left_over(other)

    @contextmanager
    def batch(self) -> Iterator[Path]:
        """Yield the path of a directory for one batch, to be created by Spark; remove it afterwards."""
        path = self.directory / uuid.uuid4().hex
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Remove the run's directory."""
        shutil.rmtree(self.directory, ignore_errors=True)


def save(
    writer: DataFrameWriter, context: SparkContext, directory: Path, *, most: int, records: int | None = None
) -> None:
    """Let Spark write files on this machine's file system, and verify that they are complete.

    `most`: the maximum number of rows; `records`: the exact number, if known. Raises RetriableError if data is
    missing, and Spark's errors. Job thread.
    """
    tag = f"kraal-{uuid.uuid4().hex}"
    context.addJobTag(tag)
    try:
        # The path without URL encoding: Hadoop does not decode %20.
        writer.option(_MARK, "true").save(f"file://{directory}")
    finally:
        context.removeJobTag(tag)
    check_complete(directory, partial(_read_report, context, tag), most=most, records=records)


def check_complete(
    directory: Path, report: Callable[[], Written | None], *, most: int, records: int | None
) -> None:
    """Raise RetriableError unless a job's files are complete.

    `report` returns the job's output as currently known, or None; it is called until it agrees with the files.
    """
    if not (directory / _SUCCESS).is_file():
        raise RetriableError(f"{directory} has no {_SUCCESS}: another process removed what Spark wrote there")
    size = sum(part.stat().st_size for part in directory.rglob("part-*"))
    until_s = time.monotonic() + _REPORT_TIMEOUT_S
    while (written := report()) is None or written.bytes != size:
        if time.monotonic() >= until_s:
            if written is None:
                log.debug("Spark has no report of what it wrote to %s", directory)
                return
            raise RetriableError(f"{directory} has {size} bytes, but Spark wrote {written.bytes} bytes there")
        time.sleep(_POLL_INTERVAL_S)
    if written.rows > most or (records is not None and written.rows != records):
        expected = f"at most {most}" if records is None else str(records)
        raise RetriableError(f"Spark wrote {written.rows} rows to {directory}; expected {expected}")


def _read_report(context: SparkContext, tag: str) -> Written | None:
    """Return the report of the tasks of all jobs with a tag; None if Spark does not have it yet or any longer."""
    jvm: Any = context._jsc.sc()
    tracker, store = jvm.statusTracker(), jvm.statusStore()
    try:
        jobs = [store.job(job) for job in tracker.getJobIdsForTag(tag)]
        if not jobs or any(str(job.status()) != "SUCCEEDED" for job in jobs):
            return None
        stages = [
            store.lastStageAttempt(job.stageIds().apply(n))
            for job in jobs
            for n in range(job.stageIds().size())
        ]
    except Exception as exc:
        if getattr(exc, "java_exception", None) is None:
            raise
        return None  # NoSuchElementException: Spark keeps only the most recent jobs
    return Written(sum(each.outputRecords() for each in stages), sum(each.outputBytes() for each in stages))


def _remove_left_over(directory: Path) -> None:
    """Remove a directory that has not been modified for `STALE_AFTER_S`."""
    try:
        changed_s = max(path.lstat().st_mtime for path in (directory, *directory.rglob("*")))
    except OSError:
        return  # it is in use
    if time.time() - changed_s >= STALE_AFTER_S:
        log.info("Removing %s, which a run that ended long ago left behind", directory)
        shutil.rmtree(directory, ignore_errors=True)
