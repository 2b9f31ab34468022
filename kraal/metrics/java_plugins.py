"""Metric families of the plugins' JVMs: state, memory, and the Java plugins' own metrics. Pure.

Plugins' metrics have the names that the JMX exporter produces for `kafka.connect:type=plugins,connector=X,task=N,…`;
Debezium's metrics follow the exporter rules of its documentation and dashboards.
Source: KIP-877, PluginMetricsImpl (Kafka 4.4.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kraal.core.ids import TaskId
from kraal.metrics import connect_attributes as names
from kraal.metrics.text import Family, labels, render

TaskValues = Mapping[str, float]
"""Values of Connect's task metrics by attribute, as measured by the JVM."""

_GROUP: Final = "plugins"
_DEBEZIUM: Final = "debezium_metrics_"
_INVALID_CHARACTER: Final = re.compile(r"[^a-zA-Z0-9_]")
_JVM_LABEL: Final = ("jvm", "plugins")

Rendered = Mapping[str, tuple[str, Mapping[str, str]]]
"""Families by name: their HELP and TYPE lines, and the line of each series."""

HELP: Final[Mapping[str, str]] = {
    "kraal_jvm_up": "1 if the JVM responded to this scrape, else 0; if 0, the last known metrics are reported.",
    "kraal_jvm_starts_total": "Starts of the JVM since the worker was started.",
    "kraal_jvm_uptime_seconds": "Time since the JVM was started.",
    "kraal_jvm_cpu_seconds_total": "CPU time used by the JVM.",
    "kraal_jvm_memory_used_bytes": "Memory used by the JVM, by area.",
    "kraal_jvm_memory_committed_bytes": "Memory committed to the JVM, by area.",
    "kraal_jvm_memory_max_bytes": "Maximum memory of the JVM, by area; absent for an area without a limit.",
    "kraal_jvm_threads": "Threads of the JVM.",
    "kraal_jvm_gc_collections_total": "Garbage collections, by collector.",
    "kraal_jvm_gc_seconds_total": "Time spent in garbage collections, by collector.",
    "kraal_jvm_open_files": "Open file descriptors of the JVM process.",
    "kraal_jvm_max_files": "Limit of open file descriptors of the JVM process.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmState:
    """State of one JVM."""

    connector: str = ""
    """The connector with a dedicated JVM; empty for the shared JVM."""
    is_up: bool
    """Whether the JVM responded to this scrape."""
    starts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmMetrics:
    """The latest metrics of the plugins' JVMs."""

    tasks: Mapping[TaskId, TaskValues | None] = field(default_factory=dict)
    """Values of the tasks that run in the JVMs; None for a task without metrics yet."""
    jvms: Sequence[JvmState] = ()
    text: str = ""
    """The other metric families of the JVMs' last responses, in Prometheus' text format."""


def state_families(metrics: JvmMetrics) -> Iterator[Family]:
    """Yield the families that show whether each JVM is up, and how often it was started."""
    labeled_jvms = [(_connector_label(jvm.connector), jvm) for jvm in metrics.jvms]
    yield _family("kraal_jvm_up", [(labels, int(jvm.is_up)) for labels, jvm in labeled_jvms])
    yield _family("kraal_jvm_starts_total", [(labels, jvm.starts) for labels, jvm in labeled_jvms])


def jvm_families(jvm: Mapping[str, Any], connector: str = "") -> Iterator[Family]:
    """Yield the families of a JVM's memory, threads, garbage collections and files.

    Args:
        jvm: the result of `Measurements.ofJvm`.
        connector: the connector with a dedicated JVM.
    """
    connector_label = _connector_label(connector)
    areas = [((*connector_label, ("area", area)), jvm[area]) for area in ("heap", "nonheap")]
    for usage in ("used", "committed", "max"):
        rows = [(label, values[usage]) for label, values in areas if usage in values]
        yield _family(f"kraal_jvm_memory_{usage}_bytes", rows)
    collectors = [((*connector_label, ("gc", name)), values) for name, values in jvm["collectors"].items()]
    yield _family(
        "kraal_jvm_gc_collections_total", [(label, values["count"]) for label, values in collectors]
    )
    yield _family(
        "kraal_jvm_gc_seconds_total", [(label, values["ms"] / 1000) for label, values in collectors]
    )
    for name, key, unit in (
        ("kraal_jvm_threads", "threads", 1),
        ("kraal_jvm_uptime_seconds", "uptime_ms", 1000),
        ("kraal_jvm_cpu_seconds_total", "cpu_ms", 1000),
        ("kraal_jvm_open_files", "open_files", 1),
        ("kraal_jvm_max_files", "max_files", 1),
    ):
        yield _family(name, [(connector_label, jvm[key] / unit)] if key in jvm else [])


def plugin_families(metrics: Mapping[str, Mapping[str, Any]]) -> Iterator[Family]:
    """Yield the families of the plugins' metrics; `metrics` is the result of `PluginNumbers.take`."""
    merged_families: dict[str, tuple[str, dict[str, float]]] = {}
    for name, metric in metrics["plugins"].items():
        _merge(merged_families, names.metric(_GROUP, _sanitize_name(name)), metric, lowercase_labels=True)
    for name, metric in metrics["debezium"].items():
        _merge(merged_families, _DEBEZIUM + _sanitize_name(name), metric, lowercase_labels=False)
    for name, (text, rows) in merged_families.items():
        yield Family(name, _kind(name), text, list(rows.items()))


def render_jvm(families: Iterable[Family]) -> Rendered:
    """Render the families of one JVM, for `merge`."""
    lines_by_family: dict[str, tuple[str, Mapping[str, str]]] = {}
    for family in families:
        help_line, kind, *rows = render(family).split("\n")[:-1] or ("", "")
        if rows:
            lines_by_family[family.name] = (
                f"{help_line}\n{kind}\n",
                {row.rpartition(" ")[0]: f"{row}\n" for row in rows},
            )
    return lines_by_family


def merge(jvms: Iterable[Rendered]) -> str:
    """Merge the families of several JVMs into one text, keeping the first of duplicate series."""
    heads: dict[str, str] = {}
    series: dict[str, dict[str, str]] = {}
    for families in jvms:
        for name, (head, lines) in families.items():
            heads.setdefault(name, head)
            lines_by_series = series.setdefault(name, {})
            for key, line in lines.items():
                lines_by_series.setdefault(key, line)
    return "".join(heads[name] + "".join(lines.values()) for name, lines in series.items())


def _connector_label(connector: str) -> tuple[tuple[str, str], ...]:
    return (("connector", connector),) if connector else ()


def _merge(
    families: dict[str, tuple[str, dict[str, float]]],
    name: str,
    metric: Mapping[str, Any],
    *,
    lowercase_labels: bool,
) -> None:
    """Add rows to a family. Several plugin metrics may have the same name; the first of duplicate series is kept."""
    _, rows = families.setdefault(name, (metric["help"] or "A metric of a plugin.", {}))
    for tags, value in metric["rows"]:
        pairs: dict[str, str] = {}
        for tag, text in tags.items():
            label = _label(tag)
            pairs.setdefault(label.lower() if lowercase_labels else label, text)
        rows.setdefault(labels(*pairs.items()), float(value))


def _sanitize_name(name: str) -> str:
    return _INVALID_CHARACTER.sub("_", name)


def _label(tag: str) -> str:
    """Return a valid label name, which starts with a letter because Prometheus reserves names with `__`."""
    label = _sanitize_name(tag).lstrip("_")
    return label if label[:1].isalpha() else f"tag_{label}"


def _kind(name: str) -> Literal["counter", "gauge"]:
    return "counter" if name.endswith("_total") else "gauge"


def _family(name: str, rows: Sequence[tuple[tuple[tuple[str, str], ...], float]]) -> Family:
    return Family(
        name,
        _kind(name),
        HELP[name],
        [(labels(_JVM_LABEL, *extra_labels), value) for extra_labels, value in rows],
    )
