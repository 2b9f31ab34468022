"""Steps that list plugins and their config keys, and validate configs."""

from __future__ import annotations

from typing import Any

from tests.differential.allowances import (
    error,
    fields,
    keys_in_any_order,
    missing_plugins,
    own_plugins,
)
from tests.differential.configs import SINK, SOURCE, sink, source
from tests.differential.script import Step, ask, family

_DOCUMENTATION = fields("documentation", "documentation", is_random=True)
_CONNECTORS = (missing_plugins("other-connectors", "source", "sink"), own_plugins("own-plugins"))
_KEY_ALLOWANCES = (_DOCUMENTATION, keys_in_any_order("keys-order"))
_SOURCE_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
_PACKAGE = "org.apache.kafka.connect"


_LIST_STEPS = [
    ask("connectors", "GET /connector-plugins", None, *_CONNECTORS),
    ask("all", "GET /connector-plugins?connectorsOnly=false", None, *_CONNECTORS),
    ask("by an invalid flag", "GET /connector-plugins?connectorsOnly=no", None, *_CONNECTORS),
    ask("by TRUE", "GET /connector-plugins?connectorsOnly=TRUE", None, *_CONNECTORS),
    ask("by an empty flag", "GET /connector-plugins?connectorsOnly=", None, *_CONNECTORS),
]

_KEY_STEPS = [
    ask(f"keys of {name}", f"GET /connector-plugins/{name}/config", None, _DOCUMENTATION)
    for name in (
        SOURCE,
        f"{SOURCE}Connector",
        _SOURCE_CLASS,
        SINK,
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "StringConverter",
        "String",
        f"{_PACKAGE}.storage.StringConverter",
        "JsonConverter",
        "ByteArrayConverter",
        "SimpleHeaderConverter",
        "RegexRouter",
        f"{_PACKAGE}.transforms.Cast$Value",
        f"{_PACKAGE}.transforms.predicates.HasHeaderKey",
        "Key",
        "none",
        "none.Such",
        "filestreamsource",
        "Connector",
        "%20",
    )
]


_REJECTED_VALIDATION = error("validate-refused", 500, 400)


def _validate(label: str, config: dict[str, Any], *allow: Any, plugin: str = SOURCE) -> Step:
    return ask(
        f"validate: {label}",
        f"PUT /connector-plugins/{plugin}/config/validate",
        config,
        *_KEY_ALLOWANCES,
        *allow,
    )


def _validate_source(label: str, **more: Any) -> Step:
    return _validate(label, source("valid", name="valid", **more))


def _validate_sink(label: str, **more: Any) -> Step:
    return _validate(label, sink("valid", "t", name="valid", **more), plugin=SINK)


_VALIDATION_STEPS = [
    _validate_source("a source"),
    _validate("by the full class name", source("v", name="v"), plugin=_SOURCE_CLASS),
    _validate("by the simple class name", source("v", name="v"), plugin=f"{SOURCE}Connector"),
    _validate("a full class", {**source("v", name="v"), "connector.class": _SOURCE_CLASS}),
    _validate("no name", source("v")),
    _validate("only a class", {"connector.class": SOURCE}),
    _validate("an empty config", {}, _REJECTED_VALIDATION),
    _validate("no class", {"file": "f"}, _REJECTED_VALIDATION),
    _validate("an unknown class", {"connector.class": "none.Such"}),
    _validate("another class", {"connector.class": SINK}),
    _validate("another plugin", source("v"), plugin=SINK),
    _validate("an unknown plugin", source("v"), plugin="none"),
    _validate("a converter as a plugin", source("v"), plugin="StringConverter"),
    _validate("a null class", {"connector.class": None}, _REJECTED_VALIDATION),
    _validate("all null", dict.fromkeys(source("v")), _REJECTED_VALIDATION),
    _validate_source("bad numbers", tasks_max="x", batch_size="-1"),
    _validate_source("numbers out of range", tasks_max="99999999999", batch_size="99999999999"),
    _validate_source("numbers with blanks", tasks_max=" 3 "),
    _validate_source("numbers as numbers", tasks_max=3, batch_size=10),
    _validate_source("unknown keys", note="x", other_note="y"),
    _validate_source("empty strings", file="", topic=""),
    _validate_source("nulls", file=None, topic=None),
    _validate_source("bad flags", errors_log_enable="maybe", tasks_max_enforce="2"),
    _validate_source("a bad action", config_action_reload="explode", errors_tolerance="some"),
    _validate_source("bad times", errors_retry_timeout="-5", errors_retry_delay_max_ms="x"),
    _validate("a name with control characters", source("v", name="a\tb")),
    _validate("an empty name", source("v", name="")),
    _validate(
        "exactly once",
        {**source("v", name="v"), "exactly.once.support": "required", "transaction.boundary": "connector"},
    ),
    _validate_source("exactly once, misspelt", exactly_once_support="REQUIRE", transaction_boundary="none"),
    _validate_source("a converter", value_converter="org.apache.kafka.connect.json.JsonConverter"),
    _validate_source(
        "a converter with keys", value_converter="JsonConverter", value_converter_schemas_enable="x"
    ),
    _validate_source("an unknown converter", key_converter="none.Such", header_converter="none.Such"),
    _validate_source("a producer's key", producer_override_linger_ms="5"),
    _validate_source("a producer's bad key", producer_override_acks="7"),
    _validate_source("an unknown transform", transforms="a,b", transforms_a_type="none.Such"),
    _validate_source("a transform twice", transforms="a,a"),
    _validate_source("a transform", transforms="a", transforms_a_type="RegexRouter", transforms_a_regex="x"),
    _validate_source(
        "a transform under a predicate",
        transforms="a",
        transforms_a_type=f"{_PACKAGE}.transforms.MaskField$Key",
        transforms_a_fields="",
        transforms_a_predicate="p",
        transforms_a_negate="x",
        predicates="p",
        predicates_p_type=f"{_PACKAGE}.transforms.predicates.HasHeaderKey",
    ),
    _validate_source("a predicate as a transform", transforms="a", transforms_a_type="RecordIsTombstone"),
    _validate_source("an unknown predicate", predicates="p"),
    _validate_sink("a sink"),
    _validate_sink("a sink with topics and topics.regex", topics_regex="x"),
    _validate("a sink without topics", {"connector.class": SINK, "name": "v"}, plugin=SINK),
    _validate(
        "a sink with topics.regex", {"connector.class": SINK, "name": "v", "topics.regex": "a.*"}, plugin=SINK
    ),
    _validate(
        "a sink with blank topics", {"connector.class": SINK, "name": "v", "topics": " , "}, plugin=SINK
    ),
    _validate_sink("a dead letter queue", errors_deadletterqueue_topic_name="q"),
    _validate_sink("a dead letter queue that the sink reads", errors_deadletterqueue_topic_name="t"),
    _validate_sink("a consumer's key", consumer_override_max_poll_records="5"),
    _validate("a consumer's group", sink("v", "t", name="v", consumer_override_group_id="g"), plugin=SINK),
]

STEPS = [*family("plugins", _LIST_STEPS, _KEY_STEPS), *family("validate", _VALIDATION_STEPS)]
