"""Steps that alter and reset the offsets of the stopped source and the stopped sink that `life.py` has created."""

from __future__ import annotations

from typing import Any

from tests.differential.allowances import Allowance, error, offsets_in_any_order, only_kraal_has, status
from tests.differential.script import Step, ask, family, has, lacks

_SOURCE = "/connectors/lines"
_SINK = "/connectors/copier-TAG"
_FILE = {"filename": "DIR/lines.in"}
_TOPIC_PARTITION = {"kafka_topic": "lines-TAG", "kafka_partition": 0}
_OBJECTION = status("offsets-objection", 500, 400)
_ORDER = offsets_in_any_order("offsets-order")
_LAG = only_kraal_has("offsets-lag", "lag")


def _pairs(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in pairs]}


def _alter_source_offset(label: str, partition: Any, offset: Any, *allowances: Allowance) -> Step:
    return ask(f"a source's {label}", f"PATCH {_SOURCE}/offsets", _pairs((partition, offset)), *allowances)


def _alter_sink_offset(label: str, partition: Any, offset: Any, *allowances: Allowance) -> Step:
    return ask(f"a sink's {label}", f"PATCH {_SINK}/offsets", _pairs((partition, offset)), *allowances)


_GET_OFFSETS = f"GET {_SOURCE}/offsets"
_GET_SINK_OFFSETS = f"GET {_SINK}/offsets"

STEPS = family(
    "offsets",
    ask("no offsets", f"PATCH {_SOURCE}/offsets", {"offsets": []}),
    ask("null offsets", f"PATCH {_SOURCE}/offsets", {"offsets": None}),
    ask("an empty object", f"PATCH {_SOURCE}/offsets", {}),
    _alter_source_offset("position", _FILE, {"position": 4}),
    ask("read the altered offset", _GET_OFFSETS, until=has('"position":4')),
    ask("a source has no lag", f"{_GET_OFFSETS}?expand=lag"),
    _alter_source_offset("position in another file", {"filename": "other"}, {"position": 1}),
    ask("read two offsets", _GET_OFFSETS, None, _ORDER, until=has('"other"')),
    _alter_source_offset("position is null", {"filename": "other"}, None),
    ask("read one offset", _GET_OFFSETS, until=lacks('"other"')),
    _alter_source_offset("position of an unknown file is null", {"filename": "nowhere"}, None),
    _alter_source_offset("position is a string", _FILE, {"position": "4"}, _OBJECTION),
    _alter_source_offset("position is real", _FILE, {"position": 1.5}, _OBJECTION),
    _alter_source_offset("position is negative", _FILE, {"position": -1}, _OBJECTION),
    _alter_source_offset("position is huge", _FILE, {"position": 9223372036854775807}),
    _alter_source_offset("position is missing", _FILE, {"line": 1}, _OBJECTION),
    _alter_source_offset("offset is empty", _FILE, {}, _OBJECTION),
    _alter_source_offset("offset has an additional field", _FILE, {"position": 2, "note": "more"}),
    ask("read the additional field", _GET_OFFSETS, None, _ORDER, until=has('"note"')),
    _alter_source_offset("partition is another", {"name": "x"}, {"position": 1}, _OBJECTION),
    _alter_source_offset("partition is empty", {}, {"position": 1}, _OBJECTION),
    _alter_source_offset("partition is null", None, {"position": 1}, error("null-partition", 500, 400)),
    _alter_source_offset("partition has a null", {"filename": None}, {"position": 1}),
    _alter_source_offset("partition has a number", {"filename": 7}, {"position": 1}),
    _alter_source_offset("partition has an object", {"filename": {}}, {"position": 1}, _OBJECTION),
    _alter_source_offset("partition has an array", {"filename": []}, {"position": 1}, _OBJECTION),
    _alter_source_offset("offset has an object", _FILE, {"position": {}}, _OBJECTION),
    _alter_source_offset("offset has an array", _FILE, {"position": [1]}, _OBJECTION),
    ask(
        "one partition twice",
        f"PATCH {_SOURCE}/offsets",
        _pairs((_FILE, {"position": 1}), (_FILE, {"position": 2})),
    ),
    ask("read the last offset of the partition", _GET_OFFSETS, None, _ORDER, until=has('"position":2}')),
    ask(
        "a valid and an invalid offset",
        f"PATCH {_SOURCE}/offsets",
        _pairs((_FILE, {"position": 5}), ({"filename": "b"}, {"position": -5})),
        _OBJECTION,
    ),
    ask("a missing offset", f"PATCH {_SOURCE}/offsets", {"offsets": [{"partition": _FILE}]}),
    ask(
        "a missing partition",
        f"PATCH {_SOURCE}/offsets",
        {"offsets": [{"offset": {"position": 1}}]},
        error("null-partition", 500, 400),
    ),
    ask("read unchanged offsets", _GET_OFFSETS, None, _ORDER),
    ask("reset", f"DELETE {_SOURCE}/offsets"),
    ask("read no offsets", _GET_OFFSETS, until=has("[]")),
    ask("reset again", f"DELETE {_SOURCE}/offsets"),
    ask("DELETE with a query", f"DELETE {_SOURCE}/offsets?forward=false"),
    _alter_sink_offset("offset", _TOPIC_PARTITION, {"kafka_offset": 1}),
    ask("read the sink's altered offset", _GET_SINK_OFFSETS, None, _ORDER),
    ask("read the sink's offset with lag", f"{_GET_SINK_OFFSETS}?expand=lag", None, _LAG, _ORDER),
    ask("an unknown part", f"{_GET_SINK_OFFSETS}?expand=age", None, _ORDER),
    _alter_sink_offset(
        "numbers as strings", {"kafka_topic": "lines-TAG", "kafka_partition": "0"}, {"kafka_offset": "2"}
    ),
    ask("read strings as numbers", _GET_SINK_OFFSETS, None, _ORDER),
    _alter_sink_offset("partition is null", None, {"kafka_offset": 1}),
    _alter_sink_offset("partition is empty", {}, {"kafka_offset": 1}),
    _alter_sink_offset("topic is missing", {"kafka_partition": 0}, {"kafka_offset": 1}),
    _alter_sink_offset("topic is null", {"kafka_topic": None, "kafka_partition": 0}, {"kafka_offset": 1}),
    _alter_sink_offset("topic is a number", {"kafka_topic": 7, "kafka_partition": 0}, {"kafka_offset": 1}),
    _alter_sink_offset(
        "topic is an object",
        {"kafka_topic": {}, "kafka_partition": 0},
        {"kafka_offset": 1},
        error("topic-object", 500, 400),
    ),
    _alter_sink_offset(
        "topic is unknown", {"kafka_topic": "unheard-of-TAG", "kafka_partition": 0}, {"kafka_offset": 1}
    ),
    _alter_sink_offset(
        "partition is a word", {"kafka_topic": "lines-TAG", "kafka_partition": "x"}, {"kafka_offset": 1}
    ),
    _alter_sink_offset(
        "partition number is null", {"kafka_topic": "lines-TAG", "kafka_partition": None}, {"kafka_offset": 1}
    ),
    _alter_sink_offset(
        "partition is real", {"kafka_topic": "lines-TAG", "kafka_partition": 0.5}, {"kafka_offset": 1}
    ),
    _alter_sink_offset(
        "partition is negative", {"kafka_topic": "lines-TAG", "kafka_partition": -1}, {"kafka_offset": 1}
    ),
    _alter_sink_offset(
        "partition is a boolean", {"kafka_topic": "lines-TAG", "kafka_partition": True}, {"kafka_offset": 1}
    ),
    _alter_sink_offset("offset is empty", _TOPIC_PARTITION, {}),
    _alter_sink_offset("offset is a source offset", _TOPIC_PARTITION, {"position": 1}),
    _alter_sink_offset("offset is a word", _TOPIC_PARTITION, {"kafka_offset": "x"}),
    _alter_sink_offset("offset is an object", _TOPIC_PARTITION, {"kafka_offset": {}}),
    _alter_sink_offset("offset number is null", _TOPIC_PARTITION, {"kafka_offset": None}),
    _alter_sink_offset(
        "offset is negative", _TOPIC_PARTITION, {"kafka_offset": -1}, error("negative-offset", 500, 400)
    ),
    _alter_sink_offset("offset is beyond the end", _TOPIC_PARTITION, {"kafka_offset": 1000}),
    ask("read the sink's offsets after invalid requests", _GET_SINK_OFFSETS, None, _ORDER),
    _alter_sink_offset("offset is null", _TOPIC_PARTITION, None),
    ask("read the sink's deleted offset", _GET_SINK_OFFSETS, None, _ORDER),
    _alter_sink_offset("offset is null again", _TOPIC_PARTITION, None),
    _alter_sink_offset("offset is restored", _TOPIC_PARTITION, {"kafka_offset": 3}),
    ask("reset the sink's", f"DELETE {_SINK}/offsets"),
    ask("read no offsets of the sink", _GET_SINK_OFFSETS),
    ask("reset the sink's again", f"DELETE {_SINK}/offsets"),
    ask("delete the sink", f"DELETE {_SINK}"),
    ask("delete the source", f"DELETE {_SOURCE}"),
)
