from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.run.groups import SPARK, group_name, group_seconds

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("tests/integration/connectors/test_files.py", SPARK),
        ("tests/integration/spark/columns/test_sql_columns.py", SPARK),
        ("tests/integration/test_secured_kafka.py", SPARK),
        ("tests/integration/spark_cluster/test_jdbc.py", "tests/integration/spark_cluster"),
        ("tests/integration/java_plugins/chains/test_mixed.py", "tests/integration/java_plugins/chains"),
        ("tests/integration/test_chaos.py", "tests/integration/test_chaos.py"),
        ("tests/differential/test_same_lines.py", "tests/differential"),
    ],
)
def test_a_group_is_a_folder_or_spark(path: str, name: str) -> None:
    assert group_name(path) == name


def test_seconds_of_a_group_are_those_of_its_files() -> None:
    files = {"a/test_1.py": 2.0, "a/test_2.py": 3.0, "b/test_3.py": 7.0}
    paths = ["a/test_1.py", "a/test_2.py", "a/test_2.py", "c/test_4.py"]
    assert group_seconds(files, paths) == {"a": 5.0, "c": 0.0}


def test_every_test_that_uses_spark_is_in_its_group() -> None:
    folders = ("integration", "differential", "contract", "fuzz")
    users = [
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        if re.search(r"\b(stage: Stage|engine: SparkEngine|spark: SparkSession)\b", path.read_text("utf-8"))
    ]
    assert len(users) > 30
    assert {group_name(path) for path in users} == {SPARK}


TESTS = """
import os
from pathlib import Path

import pytest

@pytest.mark.parametrize("number", range(4))
def test_note(number):
    with Path(os.environ["NOTES"], Path(__file__).parent.name).open("a") as notes:
        notes.write(f"{os.getpid()}\\n")
"""


def test_tests_of_a_folder_run_in_one_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("NOTES", str(tmp_path))
    pytester.makeconftest('pytest_plugins = ["tests.run.durations", "tests.run.groups"]')
    for folder in "abc":
        for name in ("test_1.py", "test_2.py"):
            path = pytester.path / "tests" / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(TESTS, encoding="utf-8")
    options = ("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder", "--import-mode=importlib")
    pytester.runpytest_subprocess("-pno:schemathesis", *options).assert_outcomes(passed=24)
    processes = {folder: (tmp_path / folder).read_text("utf-8").split() for folder in "abc"}
    assert {folder: len(set(pids)) for folder, pids in processes.items()} == dict.fromkeys("abc", 1)
    assert len(set().union(*processes.values())) == 2
