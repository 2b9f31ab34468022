"""The Spark settings of the worker's session."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kraal.config.clients.restrictions import java_properties
from kraal.config.spark_master import DEFAULT_MASTER, MASTER, is_local
from kraal.core.private_files import make_directory, write_private_text
from kraal.core.scratch import remove_old_starts, starts_directory
from kraal.engine.session.cluster import cluster_settings, executor_options, executor_python

LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.filePermissions = rw-------
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n%ex
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
logger.kafkaconfig.name = org.apache.kafka
logger.kafkaconfig.level = error
logger.consumers.name = org.apache.spark.sql.kafka010
logger.consumers.level = error
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = error
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.writer.name = org.apache.spark.sql.execution.datasources.v2
logger.writer.level = off
logger.streams.name = org.apache.spark.sql.execution.streaming.runtime
logger.streams.level = off
"""
"""The log configuration of Spark, for a file in the scratch directory. Users see failures in the traces of tasks."""

_DEFAULTS = {
    MASTER: DEFAULT_MASTER,
    "spark.app.name": "kraal",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.authenticate": "true",
    "spark.submit.deployMode": "client",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.variant.allowDuplicateKeys": "true",  # as in Jackson, the last value wins
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # Avoids a `chmod` process and a .crc file for every local file.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # A buffer on disk for uploads to an object store would require LocalFileSystem instead.
    "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
    # Reduces idle costs: fewer wake-ups, fewer gauges, no data for a disabled UI.
    "spark.executor.heartbeatInterval": "60s",
    "spark.network.timeout": "300s",
    "spark.executor.metrics.pollingInterval": "0",
    "spark.metrics.executorMetricsSource.enabled": "false",
    "spark.metrics.staticSources.enabled": "false",
    "spark.sql.ui.retainedExecutions": "20",
    # The totals of a sink's job are read after its files were uploaded.
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "200",
    "spark.cleaner.referenceTracking.blocking": "false",
    # Each read of a backlog uses new consumers; cached consumers would hold about 50 MB of records each.
    "spark.kafka.consumer.cache.timeout": "5s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "2s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "5s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "2s",
    "spark.log.structuredLogging.enabled": "false",
    # Options of Kafka clients to redact in plans, which are visible if the UI or event logs are enabled.
    "spark.sql.redaction.options.regex": "(?i)url|jaas|password|secret|ssl.*key",
}

LANE_SLOTS = 1
"""Number of task slots of a local master for the lane's task, in addition to those for jobs."""
_LOG4J_FILE = "spark-log4j2.properties"
_CRASH_FILE = "spark-crash-%p.log"
_JVM_DIRECTORY = "jvm"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_JAVA_OPTIONS = (
    "-XX:+ExitOnOutOfMemoryError -XX:+UseParallelGC -XX:-UsePerfData -Djava.net.preferIPv4Stack=true "
    "-Djdk.lang.Process.launchMechanism=vfork"
)
"""The JVM exits on OutOfMemoryError, from which it would not recover, and the session restarts it."""


def with_lane_slot(master: str, cores: int) -> tuple[str, int]:
    """Return a local master with an additional task slot for the lane, and the number of slots for jobs.

    `cores` is the number of processors, for `local[*]`. A `local-cluster[…]` is returned unchanged, with `cores`.
    """
    match = re.fullmatch(r"local(?:\[(\d+|\*)(,\d+)?])?", master)
    if match is None:  # local-cluster[…], whose executors are other processes
        return master, cores
    slots = 1 if match[1] is None else cores if match[1] == "*" else int(match[1])
    return f"local[{slots + LANE_SLOTS}{match[2] or ''}]", slots


def spark_settings(
    worker: Mapping[str, str], jars: Sequence[Path], scratch: Path, archive: Path | None = None
) -> dict[str, str]:
    """Return all settings: Kraal's defaults, then the `spark.*` settings of the worker, then fixed settings.

    Args:
        worker: the worker config.
        jars: the jar files for Spark.
        scratch: the session's directory, prepared by `prepare_environment`.
        archive: the class archive, or None.
    """
    settings = dict(_DEFAULTS)
    has_local_master = is_local(worker)
    if has_local_master:
        settings |= _LOOPBACK | {"spark.local.dir": str(jvm_directory(scratch))}
        # Python workers must be able to import this process's modules, because functions are pickled by name.
        settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(
            path or str(Path.cwd()) for path in sys.path
        )
    else:
        settings |= cluster_settings(worker)
    settings |= {key: value for key, value in worker.items() if key.startswith("spark.")}
    if has_local_master:
        master, slots = with_lane_slot(settings["spark.master"], len(os.sched_getaffinity(0)))
        settings["spark.master"] = master
        settings.setdefault("spark.default.parallelism", str(slots))
    settings["spark.jars"] = ",".join(
        [*(str(jar) for jar in jars), *filter(None, [settings.get("spark.jars", "")])]
    )
    # By default, a JVM that crashes writes a report, with its environment, to the worker's working directory.
    options = f'{_JAVA_OPTIONS} "-XX:ErrorFile={scratch / _CRASH_FILE}" '
    options += f"-Dlog4j2.configurationFile={(scratch / _LOG4J_FILE).as_uri()}"
    options += "".join(f' "-D{name}={value}"' for name, value in java_properties(worker).items())
    if not has_local_master:
        settings["spark.executor.extraJavaOptions"] = executor_options(worker)
    if archive is not None:
        options += f' "-XX:SharedArchiveFile={archive}"'
    if has_local_master:
        options += f' "-Djava.io.tmpdir={jvm_directory(scratch)}"'
    settings["spark.driver.extraJavaOptions"] = (
        f"{options} {settings.get('spark.driver.extraJavaOptions', '')}".strip()
    )
    # Use Kafka's DataSource V2: with V1, observed metrics (the record counts) are not available for batch jobs.
    sources = settings.get("spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text")
    settings["spark.sql.sources.useV1SourceList"] = ",".join(s for s in sources.split(",") if s != "kafka")
    return settings


def jvm_directory(scratch: Path) -> Path:
    """Return the directory for files that are not needed after the JVM has ended."""
    return scratch / _JVM_DIRECTORY


def tiny_settings() -> dict[str, str]:
    """Return settings that speed up jobs over few records: no code generation, no adaptive execution."""
    return {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "1",
    }


def prepare_environment(scratch: Path, worker: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write the log configuration, remove files of the previous JVM, and set the interpreter of Python workers.

    A JVM that was killed leaves its block directories and temporary files.
    """
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local(worker):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        os.environ["PYSPARK_PYTHON"] = executor_python(worker)
    shutil.rmtree(jvm_directory(scratch), ignore_errors=True)
    make_directory(jvm_directory(scratch))
    make_directory(starts_directory(scratch))
    remove_old_starts(scratch)
    file = re.sub(r"\$", "", str(scratch / "spark.log"))
    write_private_text(scratch / _LOG4J_FILE, LOG4J.format(file=file))
