"""Apache Iceberg's own REST catalog on loopback, with a Hadoop catalog in a directory behind it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx2

from kraal.broker.broker import free_port
from kraal.jars.directories import pyspark_jars
from kraal.jars.jars import ensure
from kraal.jars.java import find_java
from kraal.jars.java_module import compile_jar
from scripts.harness.processes import Running, wait_until

START_TIMEOUT_S: Final = 120.0
_SOURCES: Final = Path(__file__).parents[3] / "java" / "src" / "catalog"


@contextmanager
def iceberg_rest(directory: Path) -> Iterator[tuple[str, Running]]:
    """Run a catalog with its tables in `directory`; yield its URL and its process."""
    # Spark provides Hadoop, Jetty and Jackson.
    jars = [*ensure("iceberg-rest"), *ensure("iceberg-tests"), *pyspark_jars("*.jar")]
    own_jar = directory / "catalog.jar"
    compile_jar(_SOURCES, jars, own_jar)
    port = free_port()
    command = [
        str(find_java()),
        "-Xmx256m",
        "-cp",
        os.pathsep.join(map(str, [own_jar, *jars])),
        "kraal.testing.IcebergRestCatalog",
        str(port),
        (directory / "warehouse").as_uri(),
    ]
    process = Running(command, log=directory / "catalog.log", cwd=directory, env=os.environ)
    url = f"http://127.0.0.1:{port}"

    def is_up() -> bool:
        with suppress(httpx2.TransportError):
            return httpx2.get(f"{url}/v1/config", trust_env=False).is_success
        return False

    try:
        wait_until("the catalog responded", is_up, timeout_s=START_TIMEOUT_S, program=process)
        yield url, process
    finally:
        process.kill()
