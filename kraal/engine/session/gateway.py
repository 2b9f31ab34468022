"""Starts Spark's JVM while PySpark is being imported: each of the two takes a second or more.

By default, PySpark starts the JVM only after its import. This module starts it in the same way, with `spark-submit`,
and passes the gateway's address to PySpark, as `spark-submit` does for Python programs.

Other users of a machine can read command lines. So settings are passed to `spark-submit` in a properties file, and
Java options, which its launcher would put on the JVM's command line, in an argument file. Both files have mode 0600 and
are in a private directory, which is removed when the JVM has read them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import javaproperties

from kraal.core.errors import KraalError
from kraal.core.private_files import write_private_text
from kraal.engine.session.start_failure import describe_launcher_failure, find_java_problem

_POLL_INTERVAL_S = 0.02
_INFO_PATH = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_PORT_BYTES = 4
"""Size of the port, a Java int. The length of the secret (of the same size) and the secret follow the port."""
_DEFAULT_OPTIONS, _OPTIONS = "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"
"""The settings with Java options, in the order in which Spark applies them."""
_REJECTED_OPTIONS: Final = {
    "-Xmx": "set spark.driver.memory",
    "-Dspark": "set Spark's settings as `spark.*` in the worker config",
}
"""Prefixes of the Java options that Spark's launcher rejects, except in an argument file, with the alternatives."""


class GatewayFailed(KraalError):
    """Spark's JVM could not be started, or exited before its gateway was ready; the message contains the reason."""


@dataclass(frozen=True, slots=True)
class StartingJvm:
    """A JVM that is starting."""

    process: subprocess.Popen[bytes]
    directory: Path
    """The private directory with the JVM's settings, to which the JVM writes its port and secret."""
    output: Path
    """The file with the output of the JVM, which starts after `output_start` bytes of previous JVMs."""
    output_start: int

    @staticmethod
    def launch(settings: Mapping[str, str], output: IO[bytes], parent: Path) -> StartingJvm:
        """Start a JVM, which exits when its standard input is closed.

        Creates a temporary directory for the JVM in `parent`. Raises OSError if the JVM cannot be started, and
        GatewayFailed for rejected Java options.
        """
        home = _find_spark_home()
        output_start = output.tell()
        options = [*_java_options(settings, _DEFAULT_OPTIONS), *_java_options(settings, _OPTIONS)]
        directory = Path(tempfile.mkdtemp(prefix="start-", dir=parent))
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "SPARK_CONNECT_MODE": "0",
            _INFO_PATH: str(directory / "gateway"),
        }
        try:
            command = [str(home / "bin" / "spark-submit"), *_write_files(settings, options, directory)]
            command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                process_group=0,  # Ctrl-C must reach only the worker; `preexec_fn` could deadlock
            )
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return StartingJvm(process, directory, Path(output.name), output_start)

    def connect(self, is_cancelled: Callable[[], bool]) -> Any:
        """Wait until the gateway is ready, and return PySpark's client for it. PySpark must be imported.

        Raises GatewayFailed if the JVM has exited, or when `is_cancelled` returns True.
        """
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - takes a second to import

        address = self.directory / "gateway"
        while not address.exists():
            if (code := self.process.poll()) is not None:
                text = self.output.read_bytes()[self.output_start :].decode("utf-8", "replace")
                raise GatewayFailed(describe_launcher_failure(code, text, find_java_problem()))
            if is_cancelled():
                raise GatewayFailed("Spark is no longer needed")
            time.sleep(_POLL_INTERVAL_S)
        content = address.read_bytes()
        launch: Any = launch_gateway  # has no types
        os.environ[_PORT] = str(int.from_bytes(content[:_PORT_BYTES], "big"))
        os.environ[_SECRET] = content[2 * _PORT_BYTES :].decode()
        try:
            return launch()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]

    def remove_files(self) -> None:
        """Remove the directory, whose files the JVM has read or will not read."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _write_files(settings: Mapping[str, str], options: list[str], directory: Path) -> list[str]:
    """Write the properties and argument files; return the arguments of spark-submit that refer to them."""
    properties, arguments = directory / "spark.properties", directory / "java.options"
    # Java does not support nested argument files.
    files = [f"@{arguments}", *(option for option in options if option.startswith("@"))]
    lines = [_quote(option) for option in options if not option.startswith("@")]
    write_private_text(arguments, "\n".join(lines))
    java = {_DEFAULT_OPTIONS: "", _OPTIONS: " ".join(map(_quote, files))}
    write_private_text(properties, javaproperties.dumps({**settings, **java}, timestamp=None))
    return ["--properties-file", str(properties), "--load-spark-defaults"]


def _java_options(settings: Mapping[str, str], key: str) -> list[str]:
    """Return the Java options in a setting. Raises GatewayFailed with a message that does not contain the value."""
    try:
        options = shlex.split(settings.get(key, ""))
    except ValueError as exc:
        raise GatewayFailed(f"{key} has an unterminated quote") from exc
    for option in options:
        for prefix, alternative in _REJECTED_OPTIONS.items():
            if option.startswith(prefix):
                raise GatewayFailed(f"{key} must not contain {prefix}…: {alternative}")
    return options


def _quote(option: str) -> str:
    """Quote an option for Java's argument files and Spark's launcher."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _find_spark_home() -> Path:
    """Return Spark's directory: `SPARK_HOME`, or the directory of the PySpark package."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise OSError("PySpark is not installed")
    return Path(spec.origin).parent
