from __future__ import annotations

from typing import Any

from kraal.config.hidden import HIDDEN
from tests.unit.golden_rest import recorded
from web.ui.views.plugins import (
    Plugin,
    example,
    example_name,
    find_plugin,
    group_by_type,
    parse_keys,
    parse_plugins,
)

ALL = recorded("plugins")["plugins-all"]["body"]


def keys(plugin: str) -> Any:
    return recorded("validate")[f"validate-config-of-{plugin}"]["body"]


def test_plugins_are_grouped_by_type_with_connectors_first() -> None:
    kinds = group_by_type(parse_plugins(ALL))
    assert [each.title for each in kinds] == [
        "Sources",
        "Sinks",
        "Transforms",
        "Predicates",
        "Converters",
        "Header converters",
    ]
    assert [each.simple_name for each in kinds[0].plugins] == [
        "FileStreamSourceConnector",
        "MirrorCheckpointConnector",
        "MirrorHeartbeatConnector",
        "MirrorSourceConnector",
    ]
    assert sum(len(each.plugins) for each in kinds) == len(
        {(each["class"], each["type"], each["version"]) for each in ALL}
    )


def test_plugins_are_filtered_by_a_substring_of_their_class() -> None:
    assert {each.simple_name for each in parse_plugins(ALL, "filestream")} == {
        "FileStreamSinkConnector",
        "FileStreamSourceConnector",
    }
    plugin = find_plugin(parse_plugins(ALL), "FileStreamSinkConnector")
    assert plugin is not None
    assert (plugin.type, plugin.connector, plugin.version) == ("sink", True, "4.4.0")
    assert find_plugin(parse_plugins(ALL), "FileStreamSink") == plugin
    assert find_plugin(parse_plugins(ALL), "Nope") is None


def test_documentation_lists_plugin_keys_before_other_groups() -> None:
    groups = parse_keys(keys("FileStreamSink"))
    assert [each.title for each in groups][:2] == ["Plugin", "Common"]
    assert [each.name for each in groups[0].keys] == ["file"]
    assert (
        parse_keys([{"name": "a", "documentation": "<b>x</b> <script>"}])[0].keys[0].documentation
        == "x <script>"
    )
    assert parse_keys({"error_code": 404}) == []


def test_example_has_required_and_important_keys() -> None:
    sink = Plugin(name="org.apache.kafka.connect.file.FileStreamSinkConnector", type="sink", version="4.4.0")
    assert example(sink, keys("FileStreamSink")) == {
        "name": "my-file-stream-sink",
        "connector.class": sink.name,
        "tasks.max": "1",
        "topics": "my-topic",
        "file": "<file>",
    }


def test_example_masks_secrets_and_uses_defaults() -> None:
    infos: Any = [
        {"name": "p", "type": "PASSWORD", "required": True, "default_value": None, "importance": "LOW"},
        {"name": "a.token", "type": "STRING", "required": False, "default_value": None, "importance": "HIGH"},
        {"name": "port", "type": "INT", "required": True, "default_value": "3306", "importance": "HIGH"},
        {"name": "low", "type": "INT", "required": False, "default_value": "1", "importance": "LOW"},
        {"name": "empty", "type": "LIST", "required": False, "default_value": "", "importance": "HIGH"},
    ]
    config = example(Plugin(name="x.MySQLConnector", type="source", version=""), infos)
    assert config == {
        "name": "my-my-sql",
        "connector.class": "x.MySQLConnector",
        "tasks.max": "1",
        "p": HIDDEN,
        "a.token": HIDDEN,
        "port": "3306",
    }


def test_name_is_derived_from_any_class() -> None:
    assert example_name(Plugin(name="x.HTTPSink2Connector", type="sink", version="")) == "my-http-sink2"
    assert example_name(Plugin(name="", type="sink", version="")) == "my-connector"
    assert example_name(Plugin(name="<script>", type="sink", version="")) == "my-script"
