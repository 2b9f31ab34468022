"""Fixtures that run chains of Java transforms and converters in a separate JVM, without a worker."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from kraal.jars.jars import ensure
from kraal.jars.java import find_java
from kraal.jars.java_module import compile_jar, java_class_path
from kraal.java_plugins.chains.chain import JavaChain
from kraal.java_plugins.chains.connection import ChainAddress

RunChain = Callable[[str, dict[str, str]], AbstractContextManager[JavaChain]]

JAVA_TESTS = Path(__file__).parents[4] / "java" / "src" / "test"
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


@pytest.fixture(scope="package")
def run_chain(plugin_path: Path, tmp_path_factory: pytest.TempPathFactory) -> RunChain:
    """Return a context manager that runs the chain of a source or a sink, by default with JsonConverter."""
    jars = [*java_class_path(), *ensure("junit")]
    tests_jar = tmp_path_factory.mktemp("chain") / "tests.jar"
    compile_jar(JAVA_TESTS, jars, tests_jar)

    @contextmanager
    def run(kind: str, config: dict[str, str]) -> Iterator[JavaChain]:
        defaults = {
            "name": "c",
            "connector.class": "kraal",
            "key.converter": JSON_CONVERTER,
            "value.converter": JSON_CONVERTER,
            "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        }
        command = [str(find_java()), "-cp", os.pathsep.join(map(str, [tests_jar, *jars]))]
        command += [
            "kraal.plugins.chains.ChainProcess",
            str(plugin_path),
            json.dumps(defaults | config),
            kind,
        ]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            address_line = next(line for line in process.stdout if line.startswith('{"'))
            try:
                yield JavaChain(ChainAddress(number=1, **json.loads(address_line)))
            finally:
                process.kill()

    return run
