"""Tests for the properties and JVM options that are derived from the worker's properties."""

from __future__ import annotations

import re

import pytest

from kraal.java_plugins.parts import list_options, worker_properties

JMX = "org.apache.kafka.common.metrics.JmxReporter"


def test_java_producers_have_a_larger_default_batch_size() -> None:
    assert worker_properties({"group.id": "g"}) == {"group.id": "g", "producer.batch.size": "131072"}


def test_worker_batch_size_overrides_the_default() -> None:
    assert worker_properties({"producer.batch.size": "16384"}) == {"producer.batch.size": "16384"}


def test_config_providers_are_not_passed_to_the_jvm() -> None:
    settings = {"config.providers": "file", "config.providers.file.class": "x", "producer.batch.size": "1"}
    assert worker_properties(settings) == {"producer.batch.size": "1"}


def test_only_the_shared_jvm_gets_the_jmx_port_options() -> None:
    port_options = [f"-Dcom.sun.management.jmxremote.{name}=9999" for name in ("port", "rmi.port")]
    worker = {"plugins.jvm.options": " ".join(["-Xmx1G", *port_options, "-Da.b=c"])}
    assert list(list_options(worker))[-4:] == ["-Xmx1G", *port_options, "-Da.b=c"]
    assert list(list_options(worker, is_shared=False))[-2:] == ["-Xmx1G", "-Da.b=c"]
    assert not {*port_options} & {*list_options(worker, is_shared=False)}


@pytest.mark.parametrize(
    ("jvm_options", "collector"),
    [
        ("", "-XX:+UseParallelGC"),
        ("-Xmx8G", "-XX:+UseG1GC"),
        ("-Xmx8G -XX:+UseZGC", "-XX:+UseZGC"),
        ("-XX:+UseMaximumCompactionOnSystemGC", "-XX:+UseG1GC"),
    ],
)
def test_jvm_has_one_collector_which_options_can_override(jvm_options: str, collector: str) -> None:
    options = list_options({"plugins.jvm.options": jvm_options} if jvm_options else {})
    assert [option for option in options if re.fullmatch(r"-XX:\+Use\w+(?<!System)GC", option)] == [collector]


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
def test_collector_in_environment_variables_disables_the_default(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "-Da=b -XX:+UseG1GC")
    assert not [option for option in list_options({}) if option.endswith("GC")]


@pytest.mark.parametrize(
    ("reporters", "expected"),
    [(JMX, JMX), ("", ""), ("com.example.Reporter", JMX), (f"com.example.Reporter, {JMX}", JMX)],
)
def test_third_party_metrics_reporters_are_removed(reporters: str, expected: str) -> None:
    properties = worker_properties({"metric.reporters": reporters, "producer.batch.size": "1"})
    assert properties == {"metric.reporters": expected, "producer.batch.size": "1"}
