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

ALL_PLUGINS = recorded("plugins")["plugins-all"]["body"]


def keys(plugin: str) -> Any:
    return recorded("validate")[f"validate-config-of-{plugin}"]["body"]


def test_plugins_are_grouped_by_type_with_connectors_first() -> None:
    kinds = group_by_type(parse_plugins(ALL_PLUGINS))
    assert [kind.title for kind in kinds] == [
        "Sources",
        "Sinks",
        "Transforms",
        "Predicates",
        "Converters",
        "Header converters",
    ]
    assert [plugin.simple_name for plugin in kinds[0].plugins] == [
        "FileStreamSourceConnector",
        "MirrorCheckpointConnector",
        "MirrorHeartbeatConnector",
        "MirrorSourceConnector",
    ]
    assert sum(len(kind.plugins) for kind in kinds) == len(
        {(plugin["class"], plugin["type"], plugin["version"]) for plugin in ALL_PLUGINS}
    )


def test_plugins_are_filtered_by_a_substring_of_their_class() -> None:
    assert {plugin.simple_name for plugin in parse_plugins(ALL_PLUGINS, "filestream")} == {
        "FileStreamSinkConnector",
        "FileStreamSourceConnector",
    }
    plugin = find_plugin(parse_plugins(ALL_PLUGINS), "FileStreamSinkConnector")
    assert plugin is not None
    assert (plugin.type, plugin.is_connector, plugin.version) == ("sink", True, "4.4.0")
    assert find_plugin(parse_plugins(ALL_PLUGINS), "FileStreamSink") == plugin
    assert find_plugin(parse_plugins(ALL_PLUGINS), "Nope") is None


def test_documentation_lists_plugin_keys_before_other_groups() -> None:
    groups = parse_keys(keys("FileStreamSink"))
    assert [group.title for group in groups][:2] == ["Plugin", "Common"]
    assert [key.name for key in groups[0].keys] == ["file"]
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
