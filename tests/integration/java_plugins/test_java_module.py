"""The tests of Kraal's own Java, with the compiler and the JUnit of `jars.lock`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from kraal.jars.jars import ensure
from kraal.jars.java import find_java
from kraal.jars.java_module import compile_jar, java_class_path
from kraal.java_plugins.jvm import Jvm
from tests.integration.java_plugins.kafka_tests import BLOCKING, MONITORABLE_SOURCE, move_connectors

TESTS = Path(__file__).parents[3] / "java" / "src" / "test"


def test_the_java_module_s_tests_pass(tmp_path: Path) -> None:
    jars = [*java_class_path(), *ensure("junit")]
    compile_jar(TESTS, jars, tmp_path / "tests.jar")
    path = os.pathsep.join(map(str, [tmp_path / "tests.jar", *jars]))
    command = [str(find_java()), "-cp", path, "org.junit.platform.console.ConsoleLauncher", "execute"]
    done = subprocess.run(
        [*command, "--scan-class-path", str(tmp_path / "tests.jar"), "--fail-if-no-tests"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 tests failed" in done.stdout


def test_a_plugin_whose_config_never_returns_is_listed_without_keys(tmp_path: Path) -> None:
    (tests,) = ensure("connect-tests")
    place = tmp_path / "plugins" / "tests"
    place.mkdir(parents=True)
    blocking = f"{BLOCKING}ConfigBlockingConnector"
    move_connectors(tests, place / "moved.jar", {"source.SourceConnector": [blocking, MONITORABLE_SOURCE]})
    for jar in (*ensure("junit"), *ensure("connect")):
        if "junit" in jar.name or "server-common" in jar.name:
            shutil.copy(jar, place)
    jvm = Jvm(
        java_class_path(), [], {"plugin.path": str(tmp_path / "plugins"), "plugin.discovery": "service_load"}
    )
    try:
        found = {each["class"]: each for each in json.loads(jvm.entry.describe())}
    finally:
        jvm.close()
    assert found.keys() == {blocking, MONITORABLE_SOURCE}
    assert found[blocking]["keys"] == []
    assert found[blocking]["error"] == "it has not returned its config keys within 10 s"
    assert found[MONITORABLE_SOURCE]["task_class"].endswith("$MonitorableSourceTask")
