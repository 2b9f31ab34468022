from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from kraal.core.errors import BadRequest, ConfigInvalid, NotFound, PluginFailed
from kraal.plugins.entries import CONNECTORS_GROUP, CONVERTERS_GROUP, GROUPS, Entry, PluginKind, installed
from kraal.plugins.registry import Registry
from kraal.plugins.validation.infos import raise_if_invalid
from kraal.plugins.validation.validate import describe_plugin, validate_connector
from kraal.plugins.versions import allows, ascending, mismatch
from tests.unit.plugins.shipped import (
    JSON_CLASS,
    SINK_CLASS,
    SOURCE_CLASS,
    STRING_CLASS,
    FakeJsonConverter,
    FakeSink,
    FakeSource,
    Worker,
    registry,
)


@pytest.mark.parametrize("name", [SOURCE_CLASS, "FileStreamSourceConnector", "FileStreamSource"])
def test_connector_is_resolved_by_full_name_and_aliases(name: str) -> None:
    assert registry().connector_class(name) is FakeSource


@pytest.mark.parametrize("name", [JSON_CLASS, "JsonConverter", "Json"])
def test_converter_is_resolved_by_full_name_and_aliases(name: str) -> None:
    assert registry().converter_class(name) is FakeJsonConverter


def test_ambiguous_alias_is_not_resolved() -> None:
    registry = Registry.of({"a.FileConnector": FakeSource, "b.FileConnector": FakeSource})
    assert registry.resolve("File") is None
    assert registry.resolve("a.FileConnector") == "a.FileConnector"


def test_connectors_are_listed_sinks_first() -> None:
    listing = [(plugin.name, plugin.kind) for plugin in registry().plugins(connectors_only=True)]
    assert listing == [(SINK_CLASS, PluginKind.SINK), (SOURCE_CLASS, PluginKind.SOURCE)]
    kinds = [plugin.kind for plugin in registry().plugins()]
    assert kinds == [
        PluginKind.SINK,
        PluginKind.SOURCE,
        *[PluginKind.TRANSFORMATION] * 26,
        *[PluginKind.PREDICATE] * 3,
        *[PluginKind.CONVERTER] * 9,
        *[PluginKind.HEADER_CONVERTER] * 10,
    ]


@pytest.mark.parametrize("name", ["Nope", "", "JsonConverter", "FileStreamSource "])
def test_unknown_connector_class_is_rejected_with_connect_text(name: str) -> None:
    with pytest.raises(BadRequest) as error:
        registry().connector(name)
    assert str(error.value).startswith(
        f"Failed to find any class that implements Connector and which name matches {name}, available "
        f"connectors are: PluginDesc{{klass=class {SINK_CLASS}, name='{SINK_CLASS}', version='4.4.0', "
        "encodedVersion=4.4.0, type=sink, typeName='sink', location='classpath'}, "
    )


def test_class_that_is_not_a_converter_is_rejected() -> None:
    with pytest.raises(BadRequest, match="implements Converter and which name matches FileStreamSource"):
        registry().converter_class("FileStreamSource")


def test_describing_an_unknown_plugin_raises_not_found() -> None:
    with pytest.raises(NotFound, match=r"Unknown plugin Nope\."):
        describe_plugin(registry(), "Nope")


def test_loading_the_registry_imports_no_plugins() -> None:
    code = (
        "import sys; from kraal.plugins.registry import Registry; registry = Registry.load();"
        "assert registry.resolve('FileStreamSource') and registry.resolve('JsonConverter');"
        "assert not {'pyspark', 'pyarrow', 'kraal.connectors.file.source'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_listing_plugins_does_not_import_kraal_plugins() -> None:
    code = (
        "import sys; from kraal.plugins.registry import Registry; registry = Registry.load();"
        "assert len(registry.plugins()) > 40;"
        "assert not {'pyspark', 'pyarrow', 'kraal.transforms', 'kraal.connectors'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("group", GROUPS)
def test_listing_entries_of_kraal_plugins_match_their_classes(group: str) -> None:
    for entry in map(Entry.installed, installed(group)):
        listing = [(row.name, row.kind, row.version, row.location) for row in entry.listing_entries()]
        assert listing == [
            (plugin.name, plugin.kind, plugin.version, plugin.location) for plugin in entry.plugins()
        ]


def test_spark_is_imported_before_connectors() -> None:
    """Task threads that import parts of Spark could otherwise race with another thread that imports Spark."""
    code = (
        "import sys; from kraal.plugins.registry import Registry; registry = Registry.load();"
        "registry.load_class('org.apache.kafka.connect.json.JsonConverter'); assert 'pyspark' not in sys.modules;"
        "registry.connector_class('FileStreamSource'); assert 'pyspark.sql.context' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_listing_entry_of_a_third_party_plugin_matches_its_class() -> None:
    entry_point = EntryPoint("a.SourceConnector", "tests.unit.plugins.shipped:FakeSink", CONNECTORS_GROUP)
    assert [(entry.kind, entry.version) for entry in Entry.installed(entry_point).listing_entries()] == [
        (PluginKind.SINK, FakeSink.version)
    ]


def test_broken_plugin_affects_only_configs_that_name_it(caplog: pytest.LogCaptureFixture) -> None:
    entry_point = EntryPoint("a.BrokenSourceConnector", "kraal.no_such_module:Broken", CONNECTORS_GROUP)
    registry = Registry([Entry(entry_point.name, entry_point.group, entry_point.load)])
    assert registry.plugins() == ()
    assert "a.BrokenSourceConnector could not be loaded" in caplog.text
    with pytest.raises(PluginFailed, match="no_such_module"):
        registry.connector_class("BrokenSource")


def test_class_that_is_not_a_plugin_raises_plugin_failed() -> None:
    registry = Registry([Entry("a.Odd", CONVERTERS_GROUP, lambda: 1)])
    with pytest.raises(PluginFailed, match="which is not a plugin"):
        registry.converter_class("a.Odd")


def test_validation_errors_have_connect_texts() -> None:
    config: dict[str, str | None] = {"connector.class": "FileStreamSource", "tasks.max": "zero", "name": "q"}
    with pytest.raises(ConfigInvalid) as exc_info:
        raise_if_invalid(validate_connector(registry(), Worker(), config))
    assert str(exc_info.value) == (
        "Connector configuration is invalid and contains the following 3 error(s):\n"
        "Invalid value zero for configuration tasks.max: Not a number of type INT\n"
        "Invalid value null for configuration tasks.max: Value must be non-null\n"
        'Missing required configuration "topic" which has no default value.\n'
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )
    assert len(exc_info.value.errors) == 3


def test_config_without_a_class_is_rejected_without_exposing_its_values() -> None:
    with pytest.raises(BadRequest) as error:
        validate_connector(registry(), Worker(), {"name": "q", "db.password": "hunter2", "n": None})
    assert str(error.value) == "Connector config contains no connector type"


def test_worker_converters_are_the_defaults() -> None:
    infos = validate_connector(registry(), Worker(), {"connector.class": "FileStreamSource"})
    values = {info.value.name: info.value.value for info in infos.configs}
    assert (values["key.converter"], values["value.converter"]) == (STRING_CLASS, JSON_CLASS)


@pytest.mark.parametrize(
    ("requirement", "is_allowed"),
    [
        ("4.4.0", True),
        ("4.4", True),
        ("[4.0,5)", True),
        ("(4.4,5)", False),
        ("[1,2)", False),
        ("[4.4.0]", True),
        ("latest", True),
        ("[1,2),[4,5]", True),
        ("[1,2),[5,)", False),
    ],
)
def test_version_requirement_is_checked(requirement: str, is_allowed: bool) -> None:  # noqa: FBT001 - parametrized
    assert allows(requirement, "4.4.0") is is_allowed


def test_versions_are_sorted_like_maven() -> None:
    maven_order = [
        *("1.0-alpha1", "1.0-beta2", "1.0.CR1", "1.0-SNAPSHOT", "1.0.Final", "1.0.sp1", "1.0-1", "1.0.1"),
        *("3.6.1.Final", "3.7.0.Alpha2", "3.7.0.Final", "3.10"),
    ]
    lexical_order = sorted(maven_order)
    assert sorted(lexical_order, key=ascending) == maven_order != lexical_order
    for equal in ("3.7", "3.7.0", "3.7.0.GA"):
        assert allows(equal, "3.7.0.Final")
    assert not allows("[3.6,3.7)", "3.7.0.Final")
    assert not allows("[3.6,3.7)", "3.6.Beta1")


def test_unavailable_version_limits_validation_to_common_keys() -> None:
    config: dict[str, str | None] = {
        "name": None,
        "connector.class": "FileStreamSink",
        "connector.plugin.version": "9",
        "key.converter": "FileStreamSink",
        "value.converter": "Nope",
    }
    text = f"Plugin {SINK_CLASS} not found that matches the version range [9,9], available versions: [4.4.0]"
    assert validate_connector(registry(), Worker(), config).errors == (
        "Null value can not be supplied as the configuration value.",
        text,
        text,
        f"Class class {SINK_CLASS} does not implement the Converter interface",
        "Invalid value Nope for configuration value.converter: Class Nope could not be found.",
    )


def test_unavailable_converter_version_is_an_error_of_both_keys() -> None:
    config: dict[str, str | None] = {
        "name": "a",
        "connector.class": "FileStreamSource",
        "topic": "t",
        "key.converter.plugin.version": "9",
        "value.converter": "StringConverter",
        "value.converter.plugin.version": "[1,2)",
    }
    text = mismatch(STRING_CLASS, "[1,2)", ("4.4.0", "4.4.0"))
    assert text == (
        f"Plugin {STRING_CLASS} not found that matches the version range [1,2), "
        "available versions: [4.4.0, 4.4.0]"
    )
    assert validate_connector(registry(), Worker(), config).errors == (text, text)
