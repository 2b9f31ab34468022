"""Spark's JVM, started before PySpark is there: the two take a second and more each, and need each other only then.

PySpark starts it by itself only once it is imported. Here it is started the same way, by `spark-submit`, and PySpark is
told where it listens, as it is when `spark-submit` starts Python programs.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

_LOOK_S = 0.02
_PLACE = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_PORT_BYTES = 4
"""A port as Java writes an int; then the secret, after its length in as many bytes."""


class NoGateway(Exception):
    """The JVM ended before it listened; the message says with what."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A JVM that is on its way."""

    process: subprocess.Popen[bytes]
    directory: Path
    """Where it writes its port and secret; of this user alone."""

    @staticmethod
    def of(settings: Mapping[str, str], output: IO[bytes]) -> Starting:
        """Start it; it ends when its standard input closes. Raises OSError where it cannot be started."""
        home = _home()
        command = [str(home / "bin" / "spark-submit")]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        directory = Path(tempfile.mkdtemp())
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_CONNECT_MODE": "0",
            _PLACE: str(directory / "gateway"),
        }
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                preexec_fn=_deaf_to_interrupts,  # noqa: PLW1509 - as PySpark does; it calls nothing but signal()
            )
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return Starting(process, directory)

    def connected(self, give_up: Callable[[], bool]) -> Any:
        """Wait until it listens, and return PySpark's gateway to it. PySpark is imported.

        Raises NoGateway when it ended, or when `give_up` says so.
        """
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - takes a second to import

        place = self.directory / "gateway"
        try:
            while not place.exists():
                if (code := self.process.poll()) is not None:
                    raise NoGateway(
                        f"spark-submit ended with exit code {code}; what it printed is in spark.out"
                    )
                if give_up():
                    raise NoGateway("it is wanted no more")
                time.sleep(_LOOK_S)
            told = place.read_bytes()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)
        launch: Any = launch_gateway  # without types
        os.environ[_PORT] = str(int.from_bytes(told[:_PORT_BYTES], "big"))
        os.environ[_SECRET] = told[2 * _PORT_BYTES :].decode()
        try:
            return launch()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]


def _home() -> Path:
    """Return where Spark is: `SPARK_HOME`, or what PySpark brings along."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise OSError("PySpark is not installed")
    return Path(found.origin).parent


def _deaf_to_interrupts() -> None:
    """Leave Ctrl-C to the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
