"""Hive's metastore on loopback, with its own database in memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kraal.broker.broker import free_port
from kraal.jars.directories import pyspark_jars
from kraal.jars.java import find_java
from kraal.jars.java_module import compile_jar
from scripts.harness.processes import Running, wait_until

START_TIMEOUT_S: Final = 120.0
MAIN_CLASS: Final = "kraal.testing.HiveMetastore"
SETTINGS: Final = {
    "datanucleus.connectionPoolingType": "HikariCP",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.async.log.enabled": "false",
    "hive.metastore.schema.verification": "false",
    "hive.root.logger": "console",
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
}
_SOURCES: Final = Path(__file__).parents[3] / "java" / "src" / "metastore"


@contextmanager
def hive_metastore(directory: Path) -> Iterator[tuple[str, Running]]:
    """Run a metastore with its tables in `directory`; yield its URI and its process."""
    jars = list(pyspark_jars("*.jar"))  # Spark provides Hive's metastore
    own_jar = directory / "metastore.jar"
    compile_jar(_SOURCES, jars, own_jar)
    port = free_port()
    settings = {
        **SETTINGS,
        "derby.stream.error.file": str(directory / "derby.log"),
        "hive.log.dir": str(directory),
        "hive.metastore.warehouse.dir": (directory / "warehouse").as_uri(),
    }
    command = [
        str(find_java()),
        "-Xmx256m",
        *(f"-D{name}={value}" for name, value in settings.items()),
        "-cp",
        os.pathsep.join(map(str, [own_jar, *jars])),
        MAIN_CLASS,
        "-p",
        str(port),
    ]

    def is_up() -> bool:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        return False

    process = Running(command, log=directory / "metastore.log", cwd=directory, env=os.environ)
    try:
        wait_until("the metastore listened", is_up, timeout_s=START_TIMEOUT_S, program=process)
        yield f"thrift://127.0.0.1:{port}", process
    finally:
        process.kill()
