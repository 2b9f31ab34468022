"""The worker's Spark session: started in the background, warmed up, watched, and restarted when its JVM ends.

The session's thread starts the JVM and then waits for the process to exit, which detects `kill -9` at once, even while
no job is running. PySpark stores the session of a process in class attributes; this module resets them when the JVM has
ended, because the next session would otherwise use the old JVM. The thread also imports PySpark, so that the worker
serves REST requests meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from kraal.config.spark_master import MASTER, is_local
from kraal.core.errors import KraalError
from kraal.core.private_files import private_opener
from kraal.core.scratch import starts_directory
from kraal.engine.api import EngineReady, EngineStarting, EngineState
from kraal.engine.session import executors, settings
from kraal.engine.session.callbacks import require_token
from kraal.engine.session.gateway import StartingJvm
from kraal.engine.session.spark_heap_exhaustion import heap_exhaustion_message
from kraal.engine.session.start_failure import start_failure
from kraal.engine.session.warm_up import warm_up
from kraal.metrics.stalls.down_parts import DownPart
from kraal.plugins.importing import import_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_STARTING: Final = EngineStarting("Spark is starting")
_BACKOFF_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
_END_FINALIZER = "__shutdown__"
"""py4j.clientserver.SHUTDOWN_FINALIZER_WORKER; the module has no type hints."""
_OUTPUT = "spark.out"
"""The file for the output of JVMs, in the scratch directory."""
_MIN_HEALTHY_S = 60.0
"""A session that was up for this long resets the backoff."""
_FIRST_JOBS_TIMEOUT_S = 300.0
"""Timeout for the check of executors and the warm-up together."""
_CHECK_INTERVAL_S = 2.0
"""Interval at which the cluster is checked."""
_TAIL_BYTES = 16_384
"""Number of bytes that are read from the end of a JVM's output."""


class _AbortedCallFilter(logging.Filter):
    """Drops py4j's tracebacks for calls that were aborted by an intended stop of the JVM; the callers get errors."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        return record.msg != "Exception while sending command."


ABORTED_CALL_FILTER: Final = _AbortedCallFilter()
"""The filter for the root logger, which py4j uses for these messages."""


@dataclass(frozen=True, slots=True)
class Spark:
    """A running session. `tiny` shares its SparkContext, with settings for jobs over few records."""

    session: SparkSession
    tiny: SparkSession
    process: subprocess.Popen[bytes]

    def is_alive(self, timeout_s: float) -> bool:
        """Return whether the JVM is still running after waiting up to `timeout_s` for its end."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return True
        return False


class Session:
    """Keeps a Spark session running.

    `changed` receives each new state, and `is_awaited` returns whether a task waits for Spark; both are called on the
    session's thread. `archive` is the class archive, or None.
    """

    def __init__(
        self,
        worker: Mapping[str, str],
        jars: Callable[[], Sequence[Path]],
        scratch: Path,
        changed: Callable[[EngineState], None],
        is_awaited: Callable[[], bool],
        archive: Path | None = None,
    ) -> None:
        self._worker = worker
        self._jars = jars
        self._scratch = scratch
        self._changed = changed
        self._is_awaited = is_awaited
        self._archive = archive
        self._state: EngineState = EngineStarting("Spark starts with the first batch that requires it")
        self._down_s: float | None = None
        """The time since which Spark is down, in monotonic seconds; None if it is up or was not started."""
        self._spark: Spark | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self._start_lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="kraal-spark-session", daemon=True)

    @property
    def state(self) -> EngineState:
        """The current state."""
        return self._state

    @property
    def current(self) -> Spark | None:
        """The running session, or None. The session's JVM may have exited already."""
        return self._spark

    @property
    def is_started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start the session's thread unless it was started. Returns at once."""
        with self._start_lock:
            if not self.is_started:
                self._state, self._down_s = _STARTING, time.monotonic()
                self._thread.start()

    def down(self) -> DownPart | None:
        """Return why Spark is down although it was started; None if it is up or was not started."""
        state, since_s = self._state, self._down_s
        if since_s is None or not isinstance(state, EngineStarting):
            return None
        return DownPart("spark", since_s, state.reason)

    def spark(self) -> Spark:
        """Return the running session. Without one, start Spark unless it was started, and raise SparkUnavailable."""
        spark = self._spark
        if spark is None:
            self.start()
            raise SparkUnavailable(describe_state(self._state))
        return spark

    def kill(self, why: str) -> None:
        """Kill a JVM that is running but unusable, so that the session restarts."""
        process = self._process
        if process is not None and process.poll() is None and not self._closing.is_set():
            log.error("Restarting Spark: %s", why)
            process.kill()

    def close(self, timeout_s: float) -> None:
        """Stop Spark, and kill its JVM if necessary; blocks for at most about `timeout_s`."""
        self._closing.set()
        logging.getLogger().addFilter(ABORTED_CALL_FILTER)
        deadline = time.monotonic() + timeout_s
        spark, process = self._spark, self._process
        if spark is not None:
            stopper = threading.Thread(
                target=_stop_context, args=(spark,), name="kraal-spark-stop", daemon=True
            )
            stopper.start()
            stopper.join(max(0.1, timeout_s * 0.6))
        if process is not None:
            _terminate(process, max(0.1, min(2.0, deadline - time.monotonic())))
        if self._thread.is_alive():
            self._thread.join(max(0.5, deadline - time.monotonic()))

    def _run(self) -> None:
        failures = 0
        starting_state = _STARTING
        while not self._closing.is_set():
            if self._state != starting_state:
                self._set_state(starting_state)
            if self._closing.wait(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)]):
                break
            start_s = time.monotonic()
            try:
                spark = self._launch()
            except BaseException as error:
                why = f"Failed to start Spark, retrying: {start_failure(error)}"
                if not self._closing.is_set():
                    log.warning("%s", why, exc_info=None if isinstance(error, KraalError) else error)
                    self._drop_archive()
                starting_state = EngineStarting(why)
                failures += 1
                self._clean_up()
                continue
            self._spark = spark
            if self._closing.is_set():
                break
            log.info("Started Spark in %.1f s", time.monotonic() - start_s)
            self._set_state(EngineReady())
            code = self._wait_for_end(spark)
            self._spark = None
            if self._closing.is_set():
                break
            uptime_s = time.monotonic() - start_s
            failures = 0 if uptime_s > _MIN_HEALTHY_S else failures + 1
            starting_state = self._end_state(code, uptime_s)
            log.error("%s", starting_state.reason)
            self._set_state(starting_state)
            self._clean_up()
        self._clean_up()

    def _wait_for_end(self, spark: Spark) -> int:
        """Wait for the JVM to exit, and return its exit code. Kills a JVM that has lost its cluster."""
        if is_local(self._worker):
            return spark.process.wait()
        watch = executors.ExecutorWatch(spark.session)
        while spark.is_alive(_CHECK_INTERVAL_S):
            with contextlib.suppress(Exception):  # the JVM is exiting
                if not self._closing.is_set() and (why := watch.loss_reason()) is not None:
                    self.kill(why)
        return spark.process.wait()

    def _end_state(self, code: int, uptime_s: float) -> EngineStarting:
        """Return the state after the JVM has exited, with the cause."""
        heap = heap_exhaustion_message(code, _read_end(self._scratch / _OUTPUT))
        cause = f"its heap was exhausted: {heap}" if heap else _describe_exit(code)
        text = f"Spark's JVM ended ({cause}) after {uptime_s:.0f} s; restarting it"
        return EngineStarting(text, out_of_memory=heap is not None)

    def _set_state(self, state: EngineState) -> None:
        self._down_s = None if isinstance(state, EngineReady) else self._down_s or time.monotonic()
        self._state = state
        try:
            self._changed(state)
        except Exception:
            log.exception("A listener of the engine's state failed")

    def _launch(self) -> Spark:
        settings.prepare_environment(self._scratch, self._worker)
        values = settings.spark_settings(self._worker, self._jars(), self._scratch, self._archive)
        folder = None if is_local(self._worker) else settings.jvm_directory(self._scratch)
        with open(self._scratch / _OUTPUT, "ab", opener=private_opener) as out:
            jvm = StartingJvm.launch(values, out, starts_directory(self._scratch))
        self._process = jvm.process
        session = open_session(jvm, values, self._closing.is_set, folder)
        tiny = session.newSession()
        for key, value in settings.tiny_settings().items():
            tiny.conf.set(key, value)
        if folder is None:
            warm_up(session, tiny, self._worker, self._is_awaited)
        else:
            executors.send_code(session, folder)
            report_wait = partial(_report_wait, self._set_state)
            executors.await_executor(session, values[MASTER], report_wait, self._closing.is_set)
            with self._kill_after(_FIRST_JOBS_TIMEOUT_S):  # without executors, jobs would wait forever
                executors.check_executors(session, self._worker)
                warm_up(session, tiny, self._worker, self._is_awaited)
        return Spark(session, tiny, jvm.process)

    @contextlib.contextmanager
    def _kill_after(self, seconds: float) -> Iterator[None]:
        """Kill the JVM if the block takes longer than `seconds`."""
        timer = threading.Timer(seconds, self.kill, (f"its first jobs took more than {seconds:.0f} s",))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _drop_archive(self) -> None:
        """Stop using the class archive, because a damaged archive may crash the JVM."""
        if self._archive is not None:
            log.warning(
                "Starting Spark without %s, which may be damaged; if Spark starts, remove the file and run "
                "`kraal prepare` to recreate it",
                self._archive,
            )
            self._archive = None

    def _clean_up(self) -> None:
        self._spark = None
        process, self._process = self._process, None
        if process is not None:
            _terminate(process, 0.0)
        try:
            _reset_pyspark()
        except Exception:  # PySpark's internals may differ; the next start fails if this matters
            log.exception("Failed to reset PySpark completely")


def open_session(
    jvm: StartingJvm,
    values: Mapping[str, str],
    is_cancelled: Callable[[], bool],
    plugin_folder: Path | None = None,
) -> SparkSession:
    """Import PySpark while its JVM starts, and open a session.

    `plugin_folder` is a folder for the Spark plugin that closes producers in executors; None with a local master.
    Raises GatewayFailed, SparkUnavailable, and Spark's errors.
    """
    try:
        import_spark()
        require_token()
        gateway = jvm.connect(is_cancelled)
    finally:
        jvm.remove_files()
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(values.items()))
    if is_cancelled():
        raise SparkUnavailable("the worker is stopping")
    if plugin_folder is not None:
        plugin_settings = executors.with_producers_plugin(gateway.jvm, values, plugin_folder)
        conf.setAll(list(plugin_settings.items()))
    context = SparkContext(gateway=gateway, conf=conf)
    server: Any = context._accumulatorServer  # noqa: SLF001 - it prints a traceback when its JVM ends
    server.handle_error = lambda *_: None
    return SparkSession(context)


def _report_wait(changed: Callable[[EngineState], None], why: str) -> None:
    changed(EngineStarting(why))


class SparkUnavailable(Exception):
    """There is no running session; the message contains the reason."""


def describe_state(state: EngineState) -> str:
    """Return the message for users that describes a state of the engine."""
    return state.reason if isinstance(state, EngineStarting) else "Spark is up"


def _stop_context(spark: Spark) -> None:
    with contextlib.suppress(Exception):
        spark.session.sparkContext.stop()


def _terminate(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Close the JVM's standard input, so that it exits, and kill it if it is still running after `timeout_s`."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)


def _reset_pyspark() -> None:
    """Reset PySpark's session, and stop PySpark's threads."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    context: Any = SparkContext
    active_context = context._active_spark_context
    server = getattr(active_context, "_accumulatorServer", None)
    if server is not None:
        with contextlib.suppress(Exception):
            server.shutdown()
            server.server_close()
        active_context._accumulatorServer = None  # noqa: SLF001
    gateway = context._gateway
    if gateway is not None:
        with contextlib.suppress(AttributeError):  # otherwise its thread would outlive the JVM
            gateway._gateway_client.finalizer_deque.appendleft(_END_FINALIZER)  # noqa: SLF001
        with contextlib.suppress(Exception):
            gateway.shutdown()
    context._gateway = context._jvm = context._active_spark_context = None
    session: Any = SparkSession
    session._instantiatedSession = None  # noqa: SLF001
    session._activeSession = None  # noqa: SLF001


def _read_end(path: Path) -> str:
    """Return the end of a file; an empty string if it cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")
    return ""


def _describe_exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def make_scratch_directory(path: str | None) -> Path:
    """Return the absolute path of the session's directory: `path`, or a new temporary directory."""
    return Path(path).absolute() if path else Path(tempfile.mkdtemp(prefix="kraal-"))
