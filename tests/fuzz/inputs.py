"""Hypothesis strategies for the inputs of fuzzers: names, connector configs and offsets.

The inputs are almost valid, so that they pass the first checks. All files are in a separate directory, because sinks of
a real worker write them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

DIRECTORY = Path(tempfile.gettempdir()) / "kraal-fuzz"
"""Directory of the connectors' files. It does not exist, so that most connectors fail."""

_FILE = "org.apache.kafka.connect.file.FileStream"
_STORAGE = "org.apache.kafka.connect.storage."
_INTEGERS = ("0", "1", "2", "-1", "+1", "01", "1.0", "1e3", "2147483648", "9" * 400, "zero", "٣", "")
_BOOLEANS = ("true", "FALSE", "yes", "")
_VARIABLES = ("${", "${}", "${file:/no/such/file:key}", "${env:x:PATH}", "${a:b:${c:d}}", "$${file:x:y}")

SOURCES = ("FileStreamSource", f"{_FILE}SourceConnector", FAKE_SOURCE)
SINKS = ("FileStreamSink", f"{_FILE}SinkConnector", FAKE_SINK)
PLUGINS = (*SOURCES, *SINKS, "FileStream", "StringConverter", f"{_STORAGE}StringConverter", "Nothing", "")

NAMES = ("one", "two", "three", "with space", "a/b", "ü", "%2F", "\N{PILE OF POO}", "x" * 300)
"""A small set of names, so that requests refer to the same connectors."""

names: SearchStrategy[str] = st.sampled_from(NAMES)
texts: SearchStrategy[str] = st.one_of(
    st.text(max_size=40),
    st.sampled_from(_VARIABLES),
    st.sampled_from(("\x00", "a\nb", " ", "\ufeff", "\ud7ff", "x" * 300, "true", "null", "*", ",", "a,,b,")),
)


def _prefer(*values: str) -> SearchStrategy[str]:
    """Return a strategy that prefers `values` to arbitrary texts."""
    return st.one_of(st.sampled_from(values), st.sampled_from(values), texts)


def _file(name: str) -> str:
    return str(DIRECTORY / name)


_COMMON_KEYS: Mapping[str, SearchStrategy[Any]] = {
    "name": names,
    "tasks.max": st.sampled_from((*_INTEGERS, 1, 2, 3, 1.5, True, None)),
    "tasks.max.enforce": _prefer(*_BOOLEANS),
    "connector.plugin.version": _prefer("0.1.0", "[0,9]", "[", "(1,0)"),
    "key.converter": _prefer(f"{_STORAGE}StringConverter", "JsonConverter", "Nothing", ""),
    "value.converter": _prefer("ByteArrayConverter", "org.apache.kafka.connect.json.JsonConverter"),
    "header.converter": _prefer(f"{_STORAGE}SimpleHeaderConverter"),
    "value.converter.schemas.enable": _prefer(*_BOOLEANS),
    "value.converter.decimal.format": _prefer("NUMERIC", "numeric", "ROMAN"),
    "value.converter.encoding": _prefer("UTF-8", "rot13", "idna"),
    "transforms": _prefer("a", "a,a", "a,b"),
    "transforms.a.type": _prefer("org.apache.kafka.connect.transforms.RegexRouter"),
    "predicates": _prefer("p"),
    "predicates.p.type": _prefer("Nothing"),
    "config.action.reload": _prefer("none", "RESTART"),
    "errors.tolerance": _prefer("all", "NONE"),
    "errors.retry.timeout": st.sampled_from(_INTEGERS),
    "producer.override.acks": _prefer("all", "2"),
    "producer.override.batch.size": st.sampled_from(_INTEGERS),
    "consumer.override.max.poll.records": st.sampled_from(_INTEGERS),
    "fail.in": _prefer("start", "stop", "task_configs", "alter_offsets"),
    "fake.offsets": st.sampled_from(("managed", "unsupported")),
}
_SOURCE_KEYS: Mapping[str, SearchStrategy[Any]] = {
    "file": st.sampled_from((_file("in"), _file("a/b"), "")),
    "topic": _prefer("lines", "no such topic", "a" * 250),
    "batch.size": st.sampled_from(_INTEGERS),
    "topic.creation.groups": _prefer("g"),
    "topic.creation.default.partitions": st.sampled_from(_INTEGERS),
    "exactly.once.support": _prefer("required", "requested"),
    "offsets.storage.topic": _prefer("offsets"),
}
_SINK_KEYS: Mapping[str, SearchStrategy[Any]] = {
    "file": st.sampled_from((_file("out"), _file("a/b"), "")),
    "topics": _prefer("lines", "a,b,a"),
    "topics.regex": st.sampled_from(
        ("a.*", "(a+)+b", "[", "(?P<x>a)(?P<x>b)", "(?i", "\\", "a{99999999999}", "*", "\x00")
    ),
    "errors.deadletterqueue.topic.name": _prefer("lines", "dead", "a" * 60),
}


def _make_configs(
    classes: tuple[str, ...], optional: Mapping[str, SearchStrategy[Any]]
) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy for configs of these classes with up to five optional keys."""
    key_lists = st.lists(st.sampled_from(sorted({**_COMMON_KEYS, **optional})), unique=True, max_size=5)
    strategies = {**_COMMON_KEYS, **optional}
    optional_configs = key_lists.flatmap(
        lambda keys: st.fixed_dictionaries({key: strategies[key] for key in keys})
    )
    required: dict[str, SearchStrategy[Any]] = {"connector.class": st.sampled_from(classes)}
    if "topic" in optional:
        required["topic"] = st.just("lines")
    else:
        required["topics"] = st.just("lines")
    return st.builds(
        lambda first, second: {**first, **second}, st.fixed_dictionaries(required), optional_configs
    )


valid_configs: SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"connector.class": st.sampled_from(SOURCES), "topic": st.just("lines")}),
    st.fixed_dictionaries({"connector.class": st.sampled_from(SINKS), "topics": st.just("lines")}),
)
configs: SearchStrategy[dict[str, Any]] = st.one_of(
    valid_configs,
    valid_configs,
    _make_configs(SOURCES, _SOURCE_KEYS),
    _make_configs(SINKS, _SINK_KEYS),
    _make_configs(PLUGINS, _SOURCE_KEYS),
    st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=4),
)
create_requests: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": names | texts, "config": configs},
    optional={"initial_state": st.sampled_from(("RUNNING", "paused", "Stopped", "GONE", "", None))},
)

_NUMBERS = (
    st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from((2**63, -(2**63)))
)
_PRIMITIVES = st.none() | st.booleans() | _NUMBERS | texts
_SOURCE_PAIRS = st.fixed_dictionaries(
    {
        "partition": st.fixed_dictionaries({"filename": st.just(_file("in")) | _PRIMITIVES})
        | st.fixed_dictionaries({"task": st.sampled_from(("one-0", "two-1"))}),
        "offset": st.none() | st.fixed_dictionaries({"position": _PRIMITIVES}),
    }
)
_SINK_PAIRS = st.fixed_dictionaries(
    {
        "partition": st.fixed_dictionaries(
            {"kafka_topic": st.just("fake") | _PRIMITIVES, "kafka_partition": st.integers(0, 3) | _PRIMITIVES}
        ),
        "offset": st.none() | st.fixed_dictionaries({"kafka_offset": st.integers(0, 9) | _PRIMITIVES}),
    }
)
_FREE_PAIRS = st.fixed_dictionaries(
    {
        "partition": st.none() | st.dictionaries(texts, _PRIMITIVES | st.lists(_PRIMITIVES), max_size=3),
        "offset": st.none() | st.dictionaries(texts, _PRIMITIVES | st.lists(_PRIMITIVES), max_size=3),
    }
)
offsets: SearchStrategy[dict[str, Any]] = st.one_of(
    *(
        st.fixed_dictionaries({"offsets": st.lists(pairs, min_size=1, max_size=3)})
        for pairs in (_SOURCE_PAIRS, _SINK_PAIRS, _FREE_PAIRS)
    )
)
levels: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"level": st.sampled_from(("INFO", "debug", "OFF", "all", "", "9")) | texts}
)
loggers: SearchStrategy[str] = st.sampled_from(
    ("root", "ROOT", "kraal", "web.app", "org.apache", "a..b", ".")
)
tasks: SearchStrategy[int] = st.sampled_from((0, 1, 2, -1, 2**31 - 1))
