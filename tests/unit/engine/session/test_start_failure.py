"""Tests for the reasons for a failed start of Spark's JVM, as shown in the log and in statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.engine.session.gateway import GatewayFailed, StartingJvm
from kraal.engine.session.start_failure import describe_launcher_failure, find_java_problem, start_failure

UNKNOWN_MASTER = """WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/26 18:24:19 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)
"""
HEAP = "Picked up JAVA_TOOL_OPTIONS: -Da=b\nInvalid maximum heap size: -Xmx1x\nError: Could not create the JVM.\n"


@pytest.mark.parametrize(
    ("output", "java_problem", "expected"),
    [
        (
            UNKNOWN_MASTER,
            None,
            "1: org.apache.spark.SparkException: Master must either be yarn or start with",
        ),
        (HEAP, None, "spark-submit ended with exit code 1: Invalid maximum heap size: -Xmx1x"),
        ("\n  \n", None, "spark-submit ended with exit code 1 and printed no error"),
        ("JAVA_HOME is not set\n", "Java was not found; install it.", "Java was not found; install it."),
    ],
)
def test_launcher_failure_is_a_java_problem_or_the_first_error(
    output: str, java_problem: str | None, expected: str
) -> None:
    assert expected in describe_launcher_failure(1, output, java_problem)
    assert "\n" not in describe_launcher_failure(1, output, java_problem)


def test_launcher_failure_omits_the_output_of_earlier_launchers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark_submit = tmp_path / "home" / "bin" / "spark-submit"
    spark_submit.parent.mkdir(parents=True)
    spark_submit.write_text("#!/bin/sh\necho 'the second error' >&2\nexit 3\n")
    spark_submit.chmod(0o700)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))
    (tmp_path / "out").write_text("the first error\n")
    with (tmp_path / "out").open("ab") as output:
        starting_jvm = StartingJvm.launch({}, output, tmp_path)
    with pytest.raises(GatewayFailed) as raised:
        starting_jvm.connect(lambda: False)
    starting_jvm.process.communicate()
    starting_jvm.remove_files()
    assert start_failure(raised.value) == "spark-submit ended with exit code 3: the second error"


def test_missing_java_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_java_problem() is None
    monkeypatch.setenv("JAVA_HOME", "/no/such")
    assert find_java_problem() == "JAVA_HOME is /no/such, which does not contain bin/java."
