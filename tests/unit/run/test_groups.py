from __future__ import annotations

from pathlib import Path

import pytest

from tests.run.groups import SPARK, group_name, group_seconds


@pytest.mark.parametrize(
    ("path", "uses_spark", "name"),
    [
        ("tests/integration/connectors/test_files.py", True, SPARK),
        ("tests/integration/spark/test_member.py", False, "tests.integration.spark"),
        (
            "tests/integration/java_plugins/chains/test_mixed.py",
            False,
            "tests.integration.java_plugins.chains",
        ),
        ("tests/integration/test_chaos.py", False, "tests.integration.test_chaos.py"),
        ("tests/differential/test_same_lines.py", False, "tests.differential"),
    ],
)
def test_a_group_is_a_folder_or_spark(path: str, *, uses_spark: bool, name: str) -> None:
    assert group_name(Path(path), uses_spark=uses_spark) == name


def test_seconds_of_a_group_are_those_of_its_files() -> None:
    files = {"a/test_1.py": 2.0, "a/test_2.py": 3.0, "b/test_3.py": 7.0}
    groups = {"a/test_1.py": "a", "a/test_2.py": "a", "c/test_4.py": "c"}
    assert group_seconds(files, groups) == {"a": 5.0, "c": 0.0}
