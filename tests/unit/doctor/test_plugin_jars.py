"""Tests for the checks of jars in `plugin.path`: manifests, duplicate classes, unused libraries."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraal.config.key import ConfigDef
from kraal.doctor.finding import Finding, Level
from kraal.doctor.plugin_copies import check_jars
from kraal.doctor.plugin_jars import read_plugin_jars
from kraal.java_plugins.catalog import JavaPlugin, WorkerPluginKind
from kraal.plugins.entries import PluginKind

SOURCE = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
CONVERTER = "META-INF/services/org.apache.kafka.connect.storage.Converter"
MANIFEST = "META-INF/MANIFEST.MF"


def pack(path: Path, files: dict[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        for name, text in files.items():
            jar.writestr(name, text)
    return path


def catalog_entry(
    name: str, location: Path, version: str, kind: PluginKind | WorkerPluginKind = PluginKind.SOURCE
) -> JavaPlugin:
    return JavaPlugin(
        class_name=name,
        kind=kind,
        version=version,
        location=str(location),
        config_def=ConfigDef(()),
        task_class="",
    )


def check_levels(path: Path, catalog: Sequence[JavaPlugin] = ()) -> list[tuple[str, Level]]:
    return [(finding.id, finding.level) for finding in findings(path, catalog)]


def findings(path: Path, catalog: Sequence[JavaPlugin] = ()) -> list[Finding]:
    results = [*check_jars([str(path)], catalog)]
    assert all(bool(result.fix) == (result.level is not Level.OK) for result in results)
    return results


@pytest.mark.parametrize(
    ("name", "manifest", "version"),
    [
        ("c-1.2.3.Final.jar", "Manifest-Version: 1.0\nImplementation-Version: 1.4\n", "1.4"),
        ("c-1.2.3.Final.jar", "Manifest-Version: 1.0\n", "1.2.3.Final"),
        ("c.jar", "", ""),
    ],
)
def test_plugins_and_versions_are_read_from_manifests(
    tmp_path: Path, name: str, manifest: str, version: str
) -> None:
    text = "# a comment\n com.example.A # another\n\ncom.example.B\n"
    directory = pack(tmp_path / "p" / name, {SOURCE: text, MANIFEST: manifest}).parent
    copies = read_plugin_jars([directory]).copies
    assert [
        (plugin_copy.class_name, plugin_copy.version, plugin_copy.is_connector) for plugin_copy in copies
    ] == [
        ("com.example.A", version, True),
        ("com.example.B", version, True),
    ]


def test_duplicate_connector_version_is_a_warning_with_both_jars(tmp_path: Path) -> None:
    first_jar = pack(tmp_path / "a" / "c-1.jar", {SOURCE: "A\nB"})
    second_jar = pack(tmp_path / "b" / "c-1.jar", {SOURCE: "A\nB"})
    [finding] = findings(tmp_path)
    assert (finding.id, finding.level) == ("plugins.classes", Level.WARNING)
    assert finding.what == f"A, B: in {first_jar} (1), {second_jar} (1)"
    assert "Remove all but one" in finding.fix


def test_duplicate_converter_is_reported_only_for_different_versions(tmp_path: Path) -> None:
    pack(tmp_path / "a" / "c-1.jar", {CONVERTER: "A"})
    pack(tmp_path / "b" / "c-1.jar", {CONVERTER: "A"})
    assert check_levels(tmp_path) == [("plugins.classes", Level.OK)]
    pack(tmp_path / "d" / "c-2.jar", {CONVERTER: "A"})
    assert check_levels(tmp_path) == [("plugins.classes", Level.WARNING)]


def test_cached_catalog_adds_plugins_without_manifests_and_versions(
    tmp_path: Path,
) -> None:
    pack(tmp_path / "a" / "c-1.jar", {SOURCE: "A"})
    pack(tmp_path / "b" / "c-1.jar", {"A.class": ""})
    assert check_levels(tmp_path) == [("plugins.classes", Level.OK)]
    catalog = [
        catalog_entry("A", tmp_path / "a", "1.5"),
        catalog_entry("A", Path(f"file:{tmp_path / 'b'}/"), "1.6"),
        catalog_entry("P", tmp_path / "a", "1", WorkerPluginKind.POLICY),
        catalog_entry("P", tmp_path / "b", "2", WorkerPluginKind.POLICY),
    ]
    [finding] = findings(tmp_path, catalog)
    assert finding.level is Level.HINT
    assert finding.what == f"A: in {tmp_path / 'a' / 'c-1.jar'} (1.5), {tmp_path / 'b'} (1.6)"


def test_bundled_worker_libraries_are_named_with_their_jars(tmp_path: Path) -> None:
    pack(tmp_path / "a" / "kafka-clients.jar", {"org/apache/kafka/clients/producer/KafkaProducer.class": ""})
    pack(
        tmp_path / "a" / "merged.jar",
        {
            "org/apache/kafka/connect/connector/Connector.class": "",
            "org/slf4j/impl/StaticLoggerBinder.class": "",
            "META-INF/services/org.slf4j.spi.SLF4JServiceProvider": "",
        },
    )
    pack(tmp_path / "b" / "own.jar", {"com/example/A.class": ""})
    [finding] = findings(tmp_path)
    assert (finding.id, finding.level) == ("plugins.libraries", Level.HINT)
    assert (
        f"{tmp_path / 'a'} contains Connect's API (merged.jar), Kafka's client (kafka-clients.jar), "
        "a binding of SLF4J (merged.jar), which"
    ) in finding.what


def test_damaged_jar_is_an_error_and_other_jars_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "broken.jar").write_text("no zip")
    pack(tmp_path / "b" / "b.jar", {SOURCE: "B"})
    assert check_levels(tmp_path) == [("plugins.jars", Level.ERROR), ("plugins.classes", Level.OK)]
