"""The tests of Kraal's own Java, with the compiler and the JUnit of `jars.lock`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kraal.jars.jars import ensure
from kraal.jars.java import find_java
from kraal.jars.java_module import compile_jar, java_class_path

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
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 tests failed" in done.stdout
