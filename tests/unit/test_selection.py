"""Every test belongs to exactly one run: `scripts/test`, its `--ci`, or what only `--all` adds."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
MARKED = """
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


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run(command: Sequence[str], first_in_path: Path) -> list[str]:
    path = f"{first_in_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def pytest_arguments(directory: Path, *options: str) -> list[str]:
    """Return what `scripts/test` passes to pytest, with a set-up that does nothing and a Python that prints."""
    executable(directory / "bin" / "python", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    executable(directory / "scripts" / "setup.sh", "kraal_setup() { :; }\n")
    shutil.copy(ROOT / "scripts" / "test", directory / "scripts" / "test")
    module, pytest_name, *arguments = run(
        ["bash", str(directory / "scripts" / "test"), *options], directory / "bin"
    )
    assert [module, pytest_name] == ["-m", "pytest"]
    return arguments


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        ((), {"test_plain"}),
        (("--ci",), {"test_ci"}),
        (("--all",), {"test_plain", "test_ci", "test_slow", "test_both"}),
    ],
)
def test_each_test_is_in_one_run_and_all_are_in_all(
    pytester: pytest.Pytester, tmp_path: Path, options: tuple[str, ...], selected: set[str]
) -> None:
    pytester.makepyfile(test_marked=MARKED)
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers =\n    ci: a\n    slow: b\n"
    )
    arguments = pytest_arguments(tmp_path, *options)
    result = pytester.runpytest_inprocess("--collect-only", "-q", *arguments)
    found = {line.partition("::")[2] for line in result.outlines if "::" in line}
    assert found == selected


def test_other_arguments_go_to_pytest(tmp_path: Path) -> None:
    assert pytest_arguments(tmp_path, "--ci", "tests/unit", "-k", "jars")[-3:] == ["tests/unit", "-k", "jars"]


def test_ci_runs_the_checks_and_both_parts(tmp_path: Path) -> None:
    for name in ("check", "test"):
        executable(tmp_path / "scripts" / name, f'#!/bin/sh\necho "{name} $*"\n')
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    printed = run(["bash", str(tmp_path / ".ci" / "run")], tmp_path)
    assert [line.strip() for line in printed if " took " not in line] == ["check", "test", "test --ci"]
