"""Starts Spark's JVM before PySpark is imported: each takes a second or more, so they run in parallel.

PySpark by itself starts the JVM only after its import. This module starts it the same way, with `spark-submit`, and
passes PySpark its address, as `spark-submit` does when it starts Python programs.

Every user of a machine can read command lines. So settings go to `spark-submit` in a properties file, and Java's
options, which its launcher would put on the JVM's command line, in an argument file; both have mode 0600, in a
directory of this user that is removed when the JVM has read them.
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
from kraal.engine.session.start_failure import java_problem, launcher_failure

_POLL_INTERVAL_S = 0.02
_INFO_PATH = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_PORT_BYTES = 4
"""The length of a port as a Java int; then come the secret's length, in as many bytes, and the secret."""
_DEFAULT_OPTIONS, _OPTIONS = "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"
"""The keys of Java's options, in order."""
_REFUSED: Final = {
    "-Xmx": "set spark.driver.memory",
    "-Dspark": "set Spark's settings as `spark.*` in the worker's file",
}
"""Java options that Spark's launcher refuses, and the alternatives; the launcher does not see options in a file."""


class NoGateway(KraalError):
    """Spark's JVM was not started, or ended before it listened; the message says why."""


@dataclass(frozen=True, slots=True)
class Starting:
    """A JVM that is starting."""

    process: subprocess.Popen[bytes]
    directory: Path
    """Where it reads its settings and writes its port and secret; only this user has access."""
    output: Path
    """The file for its output, which follows `printed_before` bytes of other JVMs."""
    printed_before: int

    @staticmethod
    def of(settings: Mapping[str, str], output: IO[bytes], parent: Path) -> Starting:
        """Start it, with a directory in `parent` until `forget`; it ends when its standard input closes.

        Raises OSError if it cannot be started, NoGateway for options that a JVM must not have.
        """
        home = _home()
        printed_before = output.tell()
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
                process_group=0,  # Ctrl-C is for the worker; Python code in the child could wait for a lock forever
            )
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return Starting(process, directory, Path(output.name), printed_before)

    def connect(self, give_up: Callable[[], bool]) -> Any:
        """Wait until it listens, and return PySpark's gateway to it. PySpark must be imported.

        Raises NoGateway if the JVM ended, or when `give_up` returns True.
        """
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - takes a second to import

        place = self.directory / "gateway"
        while not place.exists():
            if (code := self.process.poll()) is not None:
                printed = self.output.read_bytes()[self.printed_before :].decode("utf-8", "replace")
                raise NoGateway(launcher_failure(code, printed, java_problem()))
            if give_up():
                raise NoGateway("it is no longer needed")
            time.sleep(_POLL_INTERVAL_S)
        content = place.read_bytes()
        launch: Any = launch_gateway  # has no types
        os.environ[_PORT] = str(int.from_bytes(content[:_PORT_BYTES], "big"))
        os.environ[_SECRET] = content[2 * _PORT_BYTES :].decode()
        try:
            return launch()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]

    def forget(self) -> None:
        """Remove the directory: the JVM has read its files, or never will."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _write_files(settings: Mapping[str, str], options: list[str], directory: Path) -> list[str]:
    """Write the files for spark-submit and Java; return the arguments that refer to them."""
    properties, arguments = directory / "spark.properties", directory / "java.options"
    # Java does not read an argument file that another one names.
    files = [f"@{arguments}", *(each for each in options if each.startswith("@"))]
    lines = [_quote(each) for each in options if not each.startswith("@")]
    write_private_text(arguments, "\n".join(lines))
    java = {_DEFAULT_OPTIONS: "", _OPTIONS: " ".join(map(_quote, files))}
    write_private_text(properties, javaproperties.dumps({**settings, **java}, timestamp=None))
    return ["--properties-file", str(properties), "--load-spark-defaults"]


def _java_options(settings: Mapping[str, str], key: str) -> list[str]:
    """Return the options in a setting. Raises NoGateway; the message does not contain the value."""
    try:
        options = shlex.split(settings.get(key, ""))
    except ValueError as exc:
        raise NoGateway(f"{key} has an unterminated quote") from exc
    for option in options:
        for start, instead in _REFUSED.items():
            if option.startswith(start):
                raise NoGateway(f"{key} must not have {start}…: {instead}")
    return options


def _quote(option: str) -> str:
    """Quote an option for Java's argument files and Spark's launcher."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _home() -> Path:
    """Return Spark's directory: `SPARK_HOME`, or the one in PySpark."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise OSError("PySpark is not installed")
    return Path(spec.origin).parent
