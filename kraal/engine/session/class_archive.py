"""Creates an archive of the classes that Spark's JVM loads at startup (Java's class data sharing).

Most of Spark's startup time is spent on loading and verifying about 20,000 classes. A start takes 11 s of CPU time, or
6 s with the archive. A separate JVM starts Spark, runs a few small jobs, and dumps the loaded classes when it exits. A
JVM with another version or class path, or one that cannot read the archive, starts without it.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kraal.core.errors import KraalError
from kraal.core.private_files import SHARED_DIRECTORY, make_directory
from kraal.engine.session import settings
from kraal.engine.session.gateway import StartingJvm
from kraal.engine.session.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 3
"""Number of steps of `create_archive`."""
_WRITE_TIMEOUT_S = 180
_MAX_UNUSED_S = 30 * 24 * 3600
_SCHEMA = "struct<id:bigint,name:string,amount:double>"


class ClassArchiveFailed(KraalError):
    """The archive could not be created; the message contains the reason."""


def create_archive(target: Path, jars: Sequence[Path], report_progress: Callable[[int, str], None]) -> None:
    """Create the archive (about 150 MB). This takes about 20 s. Raises ClassArchiveFailed.

    Must be called before this process creates a Spark session. `report_progress` receives the number of completed
    steps (out of `STEPS`) and a description of the next step.
    """
    make_directory(target.parent, SHARED_DIRECTORY)
    scratch = Path(tempfile.mkdtemp(prefix="kraal-classes-"))
    archive = target.with_name(f".{scratch.name}.jsa")
    try:
        report_progress(0, "starting Spark")
        _record_classes(archive, jars, scratch, report_progress)
        archive.replace(target)
        delete_unused(target)
    except ClassArchiveFailed:
        raise
    except Exception as exc:
        raise ClassArchiveFailed(f"Failed to create the archive of Spark's classes: {exc}") from exc
    finally:
        archive.unlink(missing_ok=True)
        shutil.rmtree(scratch, ignore_errors=True)


def delete_unused(target: Path) -> None:
    """Delete archives in the target's directory that were not read for a month."""
    for archive in target.parent.glob(f"*{target.suffix}"):
        status = archive.stat()
        if max(status.st_atime, status.st_mtime) < time.time() - _MAX_UNUSED_S:
            archive.unlink(missing_ok=True)


def _record_classes(
    archive: Path, jars: Sequence[Path], scratch: Path, report_progress: Callable[[int, str], None]
) -> None:
    settings.prepare_environment(scratch)
    values = settings.spark_settings({}, jars, scratch)
    values["spark.driver.extraJavaOptions"] += f' "-XX:ArchiveClassesAtExit={archive}"'
    output = scratch / "spark.out"
    with output.open("ab") as out:
        jvm = StartingJvm.launch(values, out, scratch)
    try:
        session = open_session(jvm, values, lambda: False)
        report_progress(1, "running small jobs")
        _run_sample_jobs(session, scratch)
        report_progress(2, "writing the archive")
        session.sparkContext.stop()
        assert jvm.process.stdin is not None  # noqa: S101 - Popen was called with a pipe
        jvm.process.stdin.close()
        code = jvm.process.wait(_WRITE_TIMEOUT_S)
    finally:
        jvm.process.kill()
        jvm.process.wait()
    if code != 0 or not archive.is_file():
        last_line = output.read_text(errors="replace").strip().splitlines()[-1:]
        raise ClassArchiveFailed(
            f"Java failed to create the archive of Spark's classes (exit code {code}): {' '.join(last_line)}"
        )


def _run_sample_jobs(session: SparkSession, scratch: Path) -> None:
    """Run typical batch operations (Arrow input, JSON, text output), with and without code generation."""
    import pyarrow as pa  # noqa: PLC0415 - heavy
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own convention

    table = pa.table({"value": ['{"id":1,"name":"a","amount":0.5}'] * 10})
    read = F.from_json("value", _SCHEMA)
    for number, enabled in enumerate(("true", "false")):
        session.conf.set("spark.sql.codegen.wholeStage", enabled)
        frame = session.createDataFrame(table).select(F.to_json(read).alias("value"))
        frame.write.text((scratch / f"made-{number}").as_uri())
        frame.select(F.col("value").cast("binary")).write.format("noop").mode("append").save()
