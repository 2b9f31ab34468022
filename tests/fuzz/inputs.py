"""What fuzzers send: names, connector configs, offsets that are nearly right, so that they get past the first check.

Hypothesis strategies. Files are named in one directory of the fuzzer's own, for a real worker's sinks write them.
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
_WHOLE = ("0", "1", "2", "-1", "+1", "01", "1.0", "1e3", "2147483648", "9" * 400, "zero", "٣", "")
_BOOLEANS = ("true", "FALSE", "yes", "")
_VARIABLES = ("${", "${}", "${file:/no/such/file:key}", "${env:x:PATH}", "${a:b:${c:d}}", "$${file:x:y}")

SOURCES = ("FileStreamSource", f"{_FILE}SourceConnector", FAKE_SOURCE)
SINKS = ("FileStreamSink", f"{_FILE}SinkConnector", FAKE_SINK)
PLUGINS = (*SOURCES, *SINKS, "FileStream", "StringConverter", f"{_STORAGE}StringConverter", "Nothing", "")

NAMES = ("one", "two", "three", "with space", "a/b", "ü", "%2F", "\N{PILE OF POO}", "x" * 300)
"""Few names, so that requests refer to the same connectors."""

names: SearchStrategy[str] = st.sampled_from(NAMES)
texts: SearchStrategy[str] = st.one_of(
    st.text(max_size=40),
    st.sampled_from(_VARIABLES),
    st.sampled_from(("\x00", "a\nb", " ", "\ufeff", "\ud7ff", "x" * 300, "true", "null", "*", ",", "a,,b,")),
)


def _several(*known: str) -> SearchStrategy[str]:
    """Return a strategy that prefers these values over arbitrary texts."""
    return st.one_of(st.sampled_from(known), st.sampled_from(known), texts)


def _file(name: str) -> str:
    return str(DIRECTORY / name)


_COMMON: Mapping[str, SearchStrategy[Any]] = {
    "name": names,
    "tasks.max": st.sampled_from((*_WHOLE, 1, 2, 3, 1.5, True, None)),
    "tasks.max.enforce": _several(*_BOOLEANS),
    "connector.plugin.version": _several("0.1.0", "[0,9]", "[", "(1,0)"),
    "key.converter": _several(f"{_STORAGE}StringConverter", "JsonConverter", "Nothing", ""),
    "value.converter": _several("ByteArrayConverter", "org.apache.kafka.connect.json.JsonConverter"),
    "header.converter": _several(f"{_STORAGE}SimpleHeaderConverter"),
    "value.converter.schemas.enable": _several(*_BOOLEANS),
    "value.converter.decimal.format": _several("NUMERIC", "numeric", "ROMAN"),
    "value.converter.encoding": _several("UTF-8", "rot13", "idna"),
    "transforms": _several("a", "a,a", "a,b"),
    "transforms.a.type": _several("org.apache.kafka.connect.transforms.RegexRouter"),
    "predicates": _several("p"),
    "predicates.p.type": _several("Nothing"),
    "config.action.reload": _several("none", "RESTART"),
    "errors.tolerance": _several("all", "NONE"),
    "errors.retry.timeout": st.sampled_from(_WHOLE),
    "producer.override.acks": _several("all", "2"),
    "producer.override.batch.size": st.sampled_from(_WHOLE),
    "consumer.override.max.poll.records": st.sampled_from(_WHOLE),
    "fail.in": _several("start", "stop", "task_configs", "alter_offsets"),
    "fake.offsets": st.sampled_from(("managed", "unsupported")),
}
_OF_SOURCES: Mapping[str, SearchStrategy[Any]] = {
    "file": st.sampled_from((_file("in"), _file("a/b"), "")),
    "topic": _several("lines", "no such topic", "a" * 250),
    "batch.size": st.sampled_from(_WHOLE),
    "topic.creation.groups": _several("g"),
    "topic.creation.default.partitions": st.sampled_from(_WHOLE),
    "exactly.once.support": _several("required", "requested"),
    "offsets.storage.topic": _several("offsets"),
}
_OF_SINKS: Mapping[str, SearchStrategy[Any]] = {
    "file": st.sampled_from((_file("out"), _file("a/b"), "")),
    "topics": _several("lines", "a,b,a"),
    "topics.regex": st.sampled_from(
        ("a.*", "(a+)+b", "[", "(?P<x>a)(?P<x>b)", "(?i", "\\", "a{99999999999}", "*", "\x00")
    ),
    "errors.deadletterqueue.topic.name": _several("lines", "dead", "a" * 60),
}


def _of(
    classes: tuple[str, ...], optional: Mapping[str, SearchStrategy[Any]]
) -> SearchStrategy[dict[str, Any]]:
    """Return a strategy for configs of these classes with a few keys."""
    some = st.lists(st.sampled_from(sorted({**_COMMON, **optional})), unique=True, max_size=5)
    known = {**_COMMON, **optional}
    rest = some.flatmap(lambda keys: st.fixed_dictionaries({key: known[key] for key in keys}))
    base: dict[str, SearchStrategy[Any]] = {"connector.class": st.sampled_from(classes)}
    if "topic" in optional:
        base["topic"] = st.just("lines")
    else:
        base["topics"] = st.just("lines")
    return st.builds(lambda first, second: {**first, **second}, st.fixed_dictionaries(base), rest)


good_configs: SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"connector.class": st.sampled_from(SOURCES), "topic": st.just("lines")}),
    st.fixed_dictionaries({"connector.class": st.sampled_from(SINKS), "topics": st.just("lines")}),
)
configs: SearchStrategy[dict[str, Any]] = st.one_of(
    good_configs,
    good_configs,
    _of(SOURCES, _OF_SOURCES),
    _of(SINKS, _OF_SINKS),
    _of(PLUGINS, _OF_SOURCES),
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
        st.fixed_dictionaries({"offsets": st.lists(each, min_size=1, max_size=3)})
        for each in (_SOURCE_PAIRS, _SINK_PAIRS, _FREE_PAIRS)
    )
)
levels: SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"level": st.sampled_from(("INFO", "debug", "OFF", "all", "", "9")) | texts}
)
loggers: SearchStrategy[str] = st.sampled_from(
    ("root", "ROOT", "kraal", "web.app", "org.apache", "a..b", ".")
)
tasks: SearchStrategy[int] = st.sampled_from((0, 1, 2, -1, 2**31 - 1))
