"""Tests that every test belongs to exactly one run: `scripts/test`, `--ci`, or the additional tests of `--all`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraal.jars.lock import RELEASES

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
MARKED_TESTS = """
import pytest

def test_plain(): pass

@pytest.mark.ci
def test_ci(): pass

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.ci
@pytest.mark.slow
def test_both(): pass
"""

CONFTEST = """
pytest_plugins = ["tests.run.seeds", "tests.run.durations", "tests.run.changes"]
"""


def write_executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(command: Sequence[str], first_in_path: Path) -> list[str]:
    path = f"{first_in_path}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines()


def pytest_arguments(directory: Path, *options: str) -> list[list[str]]:
    """Return the arguments of each pytest process that `scripts/test` starts. The setup and Python are fakes."""
    write_executable(directory / "bin" / "python", "#!/bin/sh\nprintf '%s\\n' \"$@\" END\n")
    write_executable(directory / "scripts" / "setup.sh", "kraal_setup() { :; }\n")
    shutil.copy(ROOT / "scripts" / "test", directory / "scripts" / "test")
    output = run(["bash", str(directory / "scripts" / "test"), *options], directory / "bin")
    calls = [call.split("\n") for call in "\n".join(output).removesuffix("\nEND").split("\nEND\n")]
    assert all(call[:2] == ["-m", "pytest"] for call in calls)
    return [call[2:] for call in calls]


@pytest.mark.parametrize(
    ("options", "expected_tests"),
    [
        ((), {"test_plain"}),
        (("--ci",), {"test_ci"}),
        (("--all",), {"test_plain", "test_ci", "test_slow", "test_both"}),
    ],
)
def test_every_test_is_in_one_run_and_in_all(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    options: tuple[str, ...],
    expected_tests: set[str],
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    folders = {"tests/differential", "tests/fuzz", "tests/integration"}
    for folder in folders:
        path = pytester.path / folder
        path.mkdir(parents=True)
        (path / "test_marked.py").write_text(MARKED_TESTS, encoding="utf-8")
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\naddopts = --import-mode=importlib -pno:schemathesis\n"
        "testpaths = tests\nmarkers =\n    ci: a\n    slow: b\n"
    )
    (pytester.path / "tests" / "test_layout.py").write_text("")
    collected_tests = [
        line
        for arguments in pytest_arguments(tmp_path, *options)
        if "--release" not in arguments  # this run repeats some of the tests
        for line in pytester.runpytest_subprocess("--collect-only", "-q", *arguments).outlines
        if "::" in line
    ]
    assert sorted(collected_tests) == sorted(
        f"{folder}/test_marked.py::{name}" for folder in folders for name in expected_tests
    )


def test_all_includes_a_run_with_each_release_of_kafka(tmp_path: Path) -> None:
    calls = [call for call in pytest_arguments(tmp_path, "--all") if "--release" in call]
    assert [call[call.index("--release") + 1] for call in calls] == list(RELEASES)
    assert not any("--release" in call for call in pytest_arguments(tmp_path, "--ci"))
    assert len(pytest_arguments(tmp_path, "--all", "tests/unit")) == 1


def test_ci_tests_are_in_the_collected_directories() -> None:
    folders = {
        path.relative_to(ROOT).parts[1]
        for path in (ROOT / "tests").rglob("*.py")
        if "mark.ci" in path.read_text("utf-8") and path != Path(__file__)
    }
    assert folders <= {"differential", "fuzz", "integration"}


def test_other_arguments_are_passed_to_pytest(tmp_path: Path) -> None:
    (arguments,) = pytest_arguments(tmp_path, "--ci", "tests/unit", "-k", "jars")
    assert arguments[-3:] == ["tests/unit", "-k", "jars"]


def test_failure_of_pytest_fails_the_run(tmp_path: Path) -> None:
    pytest_arguments(tmp_path)
    write_executable(tmp_path / "bin" / "python", '#!/bin/sh\ncase "$*" in *pytest*) exit 5 ;; esac\n')
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", str(tmp_path / "scripts" / "test")]
    result = subprocess.run(command, env=os.environ | {"PATH": path}, check=False)
    assert result.returncode == 5


def run_ci(
    directory: Path, *, failing_command: str = "nothing", slow_part: str = "nothing"
) -> tuple[list[str], int]:
    """Run `.ci/run` with fake commands that print their names. Return the output lines and the exit code."""
    for name in ("check", "test"):
        write_executable(
            directory / "scripts" / name,
            f'#!/bin/sh\ncalled="$(echo {name} $*)"\necho "$called"\n[ "$called" != "{failing_command}" ]\n',
        )
    write_executable(directory / "scripts" / "setup.sh", "kraal_setup() { echo setup; }\n")
    write_executable(
        directory / ".venv" / "bin" / "python",
        f'#!/bin/sh\ncase "$*" in */{slow_part}.json) exit 1 ;; esac\n',
    )
    (directory / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", directory / ".ci" / "run")
    result = subprocess.run(
        ["bash", str(directory / ".ci" / "run")],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.splitlines(), result.returncode


@pytest.mark.parametrize("failing_command", ["nothing", "check", "test", "test --ci"])
def test_ci_runs_all_parts_and_fails_if_one_fails(tmp_path: Path, failing_command: str) -> None:
    output, exit_code = run_ci(tmp_path, failing_command=failing_command)
    assert output[:4] == ["setup", "check", "test", "test --ci"]
    results = [line.split()[:2] for line in output[5:8]]
    commands = {"check": "check", "test": "test", "ci": "test --ci"}
    assert results == [
        [f"{part}:", "FAILED" if command == failing_command else "passed"]
        for part, command in commands.items()
    ]
    assert exit_code == int(failing_command != "nothing")


def test_ci_fails_if_a_part_exceeds_its_time_limit(tmp_path: Path) -> None:
    output, exit_code = run_ci(tmp_path, slow_part="test")
    assert [line.partition(" in ")[0] for line in output[5:8]] == [
        "check: passed",
        "test: passed, TOO SLOW",
        "ci: passed",
    ]
    assert exit_code == 1
