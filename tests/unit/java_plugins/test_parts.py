"""What the process of Java plugins gets from the worker's properties."""

from __future__ import annotations

import re

import pytest

from kraal.java_plugins.parts import list_options, worker_properties

JMX = "org.apache.kafka.common.metrics.JmxReporter"


def test_producers_of_java_tasks_have_larger_batches_than_java_s_default() -> None:
    assert worker_properties({"group.id": "g"}) == {"group.id": "g", "producer.batch.size": "131072"}


def test_the_worker_s_own_batch_size_wins() -> None:
    assert worker_properties({"producer.batch.size": "16384"}) == {"producer.batch.size": "16384"}


def test_config_providers_stay_with_the_python_worker() -> None:
    settings = {"config.providers": "file", "config.providers.file.class": "x", "producer.batch.size": "1"}
    assert worker_properties(settings) == {"producer.batch.size": "1"}


def test_all_jvms_have_the_worker_s_options_and_only_the_shared_one_its_port_for_jmx() -> None:
    port = [f"-Dcom.sun.management.jmxremote.{name}=9999" for name in ("port", "rmi.port")]
    worker = {"plugins.jvm.options": " ".join(["-Xmx1G", *port, "-Da.b=c"])}
    assert list(list_options(worker))[-4:] == ["-Xmx1G", *port, "-Da.b=c"]
    assert list(list_options(worker, is_shared=False))[-2:] == ["-Xmx1G", "-Da.b=c"]
    assert not {*port} & {*list_options(worker, is_shared=False)}


@pytest.mark.parametrize(
    ("settings", "collector"),
    [
        ("", "-XX:+UseParallelGC"),
        ("-Xmx8G", "-XX:+UseG1GC"),
        ("-Xmx8G -XX:+UseZGC", "-XX:+UseZGC"),
        ("-XX:+UseMaximumCompactionOnSystemGC", "-XX:+UseG1GC"),
    ],
)
def test_a_jvm_has_one_collector_which_the_user_may_choose(settings: str, collector: str) -> None:
    options = list_options({"plugins.jvm.options": settings} if settings else {})
    assert [each for each in options if re.fullmatch(r"-XX:\+Use\w+(?<!System)GC", each)] == [collector]


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
def test_a_collector_of_the_environment_stays_the_only_one(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "-Da=b -XX:+UseG1GC")
    assert not [each for each in list_options({}) if each.endswith("GC")]


@pytest.mark.parametrize(
    ("settings", "passed"),
    [(JMX, JMX), ("", ""), ("com.example.Reporter", JMX), (f"com.example.Reporter, {JMX}", JMX)],
)
def test_reporters_that_a_java_worker_has_on_its_class_path_stay_out(settings: str, passed: str) -> None:
    properties = worker_properties({"metric.reporters": settings, "producer.batch.size": "1"})
    assert properties == {"metric.reporters": passed, "producer.batch.size": "1"}
