"""Tests for the lifecycle of the Spark session: sockets, a killed JVM, and shutdown."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa
import pytest

from kraal.broker.broker import Broker
from kraal.core.offsets import SourcePartition
from kraal.core.scratch import starts_directory
from kraal.engine.api import BatchDone, EngineReady, Failed, Opened, Stopped, Waiting
from kraal.engine.engine import SparkEngine
from kraal.engine.session.arrow import map_in_arrow
from kraal.engine.session.gateway import StartingJvm
from kraal.engine.session.settings import prepare_environment, spark_settings
from kraal.jars.class_archive import archive_path
from kraal.plugins.api import SourceBatch
from kraal.plugins.config_providers import ProviderClasses, resolve_worker
from tests.fakes.spark import plugins
from tests.fakes.spark.stage import TIMEOUT_S, TaskHarness, await_ready

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION = SourcePartition.of({"list": "a"})


def find_jvm(engine: SparkEngine) -> psutil.Process:
    spark = engine._session.current
    assert spark is not None
    return psutil.Process(spark.process.pid)


@pytest.fixture(scope="module")
def restartable_engine(engine: SparkEngine) -> Iterator[SparkEngine]:
    """Yield the suite's engine, because PySpark allows one session per process. Tests may kill the engine's JVM."""
    await_ready(engine)
    yield engine
    await_ready(engine)


def test_spark_listens_on_loopback_only(restartable_engine: SparkEngine) -> None:
    process = psutil.Process()
    broker = {child.pid for child in process.children() if "kafka.Kafka" in " ".join(child.cmdline())}
    tree = [process, *(child for child in process.children(recursive=True) if child.pid not in broker)]
    listening_addresses = [
        connection.laddr.ip
        for member in tree
        for connection in member.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert find_jvm(restartable_engine).pid in {member.pid for member in tree}
    assert listening_addresses
    assert set(listening_addresses) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


@pytest.mark.slow
def test_killed_jvm_fails_runs_at_once_and_is_restarted(
    restartable_engine: SparkEngine, kafka: Broker
) -> None:
    harness, started = TaskHarness(restartable_engine, kafka.bootstrap), threading.Event()

    def read(spark: SparkSession) -> DataFrame:
        started.set()
        return spark.range(0, 50_000_000, 1, 1).selectExpr("cast(id as string) as value")

    idle_observer, busy_observer, topic = harness.open("idle"), harness.open("busy"), harness.topic()
    idle_observer.expect(Opened)
    busy_observer.expect(Opened)
    plugins.BATCHES["busy"].append(plugins.read_batch(read, 1, topic))
    idle_observer.run.next()
    busy_observer.run.next()
    assert started.wait(120)
    start_s = time.monotonic()
    find_jvm(restartable_engine).kill()
    for observer in (idle_observer, busy_observer):
        failure = observer.expect(Failed)
        assert failure.engine_lost
        assert failure.trace.startswith("Spark's JVM ended (signal 9)")
    assert time.monotonic() - start_s < 30
    waiting_observer = harness.open("meanwhile")
    waiting_observer.expect(Opened)
    assert isinstance(waiting_observer.received_events[0], Waiting)
    table = pa.table({"value": ["after"]})
    plugins.BATCHES["meanwhile"].append(
        SourceBatch(offsets={PARTITION: {"n": 1}}, table=table, topic=harness.topic())
    )
    waiting_observer.run.next()
    assert waiting_observer.expect(BatchDone).records == 1
    waiting_observer.run.stop()
    waiting_observer.expect(Stopped)


@pytest.mark.slow
def test_class_archive_is_used_unless_it_crashes_the_jvm(
    restartable_engine: SparkEngine, tmp_path: Path
) -> None:
    archive = archive_path()
    assert archive.is_file(), "./scripts/test must have created the archive"
    assert archive.name in Path(f"/proc/{find_jvm(restartable_engine).pid}/maps").read_text()
    truncated_archive = tmp_path / "half.jsa"
    with archive.open("rb") as archive_file:
        truncated_archive.write_bytes(archive_file.read(archive.stat().st_size // 3))
    restartable_engine._session._archive = truncated_archive
    restart(restartable_engine)
    assert find_archive(restartable_engine) is None
    assert truncated_archive.name not in Path(f"/proc/{find_jvm(restartable_engine).pid}/maps").read_text()
    restartable_engine._session._archive = archive
    assert list(Path(restartable_engine._context.view.scratch).glob("spark-crash-*.log")), (
        "the crash log of the JVM must exist"
    )
    assert not list(Path.cwd().glob("hs_err*"))


def find_archive(engine: SparkEngine) -> Path | None:
    return engine._session._archive


def restart(engine: SparkEngine) -> None:
    """Kill Spark's JVM, and wait until Spark is up again."""
    is_down = threading.Event()
    engine.listen(lambda state: None if isinstance(state, EngineReady) else is_down.set())
    find_jvm(engine).kill()
    assert is_down.wait(30)
    await_ready(engine)


def read_proc(process: psutil.Process) -> dict[str, str]:
    """Return the command lines and environments of a process and its children, from /proc."""
    texts = {}
    for member in [process, *process.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            directory = Path(f"/proc/{member.pid}")
            contents = [
                (directory / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ")
            ]
            texts[f"{member.pid} {contents[0]}"] = " ".join(contents)
    return texts


@pytest.mark.ci
def test_secrets_are_not_visible_in_proc(
    restartable_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s3.properties").write_text("key=hunter2-of-the-file\n")
    worker = resolve_worker(
        {
            **restartable_engine._session._worker,
            "config.providers": "file",
            "config.providers.file.class": "FileConfigProvider",
            "spark.hadoop.fs.s3a.secret.key": f"${{file:{tmp_path}/s3.properties:key}}",
            "spark.sql.catalog.kept.password": "hunter2-of-the-worker",
            "spark.driver.extraJavaOptions": '-Dkept="hunter2 of Java"',
        },
        ProviderClasses.load(),
    )
    monkeypatch.setattr(restartable_engine._session, "_worker", worker)
    texts: dict[str, str] = {}
    has_started = threading.Event()

    def watch() -> None:
        while not has_started.wait(0.02):
            texts.update(read_proc(this_process))

    this_process = psutil.Process()
    pids_before = {child.pid for child in this_process.children(recursive=True)}
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        restart(restartable_engine)
        session = restartable_engine._session.spark().session
        executor_rows = map_in_arrow(session.range(2), has_secret, "has boolean").collect()
        texts.update(read_proc(find_jvm(restartable_engine)))
    finally:
        has_started.set()
        watcher.join()
    context: Any = session.sparkContext
    assert context._jsc.hadoopConfiguration().get("fs.s3a.secret.key") == "hunter2-of-the-file"
    assert session.conf.get("spark.sql.catalog.kept.password") == "hunter2-of-the-worker"
    assert context._jvm.System.getProperty("kept") == "hunter2 of Java"
    assert {row["has"] for row in executor_rows} == {False}
    new_processes = {name: text for name, text in texts.items() if int(name.split()[0]) not in pids_before}
    for command in ("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "pyspark"):
        assert any(command in name for name in new_processes), new_processes.keys()
    assert [name for name, text in new_processes.items() if "hunter2" in text] == []
    assert list(starts_directory(Path(restartable_engine._context.view.scratch)).iterdir()) == []


def test_starting_jvm_exits_when_its_worker_is_killed(
    tmp_path: Path,
) -> None:
    prepare_environment(tmp_path)
    with (tmp_path / "spark.out").open("ab") as output:
        starting = StartingJvm.launch(spark_settings({}, (), tmp_path), output, starts_directory(tmp_path))
    try:
        assert starting.process.stdin is not None
        starting.process.stdin.close()  # as the kernel does for a killed worker
        prepare_environment(tmp_path)
        assert starting.process.wait(TIMEOUT_S) == 0
    finally:
        starting.process.kill()


def has_secret(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield whether the command line or the environment of the current process contains the secret."""
    texts = [Path("/proc/self", name).read_bytes() for name in ("cmdline", "environ")]
    yield pa.RecordBatch.from_pydict({"has": [any(b"hunter2" in text for text in texts)]})


def test_scratch_directory_contains_the_spark_log(restartable_engine: SparkEngine) -> None:
    assert (Path(restartable_engine._context.view.scratch) / "spark.log").exists()
