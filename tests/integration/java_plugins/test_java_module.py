"""Tests for the JVM process, and the JUnit tests of Kraal's Java module."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
import zipfile
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.jars.java import find_java
from kraal.jars.java_module import compile_jar, java_class_path
from kraal.java_plugins.discovery import PluginFiles
from kraal.java_plugins.jvm import Jvm
from tests.integration.java_plugins.flows import faulty_config, thread_names
from tests.integration.java_plugins.kafka_tests import BLOCKING_PREFIX, MONITORABLE_SOURCE, move_connectors

JAVA_SOURCES = Path(__file__).parents[3] / "java" / "src"
JAVA_TESTS = JAVA_SOURCES / "test"


def kafka_utils(group: str) -> set[str]:
    """Return the names of the top-level classes in Kafka's package `org.apache.kafka.common.utils`."""
    (clients,) = (jar for jar in ensure(group) if "__kafka-clients__" in jar.name)
    with zipfile.ZipFile(clients) as jar:
        paths = [Path(name) for name in jar.namelist() if name.endswith(".class") and "$" not in name]
    return {
        ".".join(path.with_suffix("").parts)
        for path in paths
        if path.parent == Path("org/apache/kafka/common/utils")
    }


def list_classes_removed_in_44() -> list[str]:
    """Return the classes that Kafka 4.4 moved to another package or removed (KAFKA-20297)."""
    return sorted(kafka_utils("connect-4.3") - kafka_utils("plugins"))


def test_java_module_tests_pass(tmp_path: Path) -> None:
    jars = [*java_class_path(), *ensure("junit")]
    compile_jar(JAVA_TESTS, jars, tmp_path / "tests.jar")
    path = os.pathsep.join(map(str, [tmp_path / "tests.jar", *jars]))
    command = [
        str(find_java()),
        f"-javaagent:{jars[0]}",
        f"-Dbefore44={','.join(list_classes_removed_in_44())}",
        "-cp",
        path,
    ]
    command += ["org.junit.platform.console.ConsoleLauncher", "execute"]
    result = subprocess.run(
        [*command, "--scan-class-path", str(tmp_path / "tests.jar"), "--fail-if-no-tests"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 tests failed" in result.stdout


def create_jvm(plugin_path: Path, discovery: str, scan: str | None = None) -> Jvm:
    properties = {"plugin.path": str(plugin_path), "plugin.discovery": discovery}
    return Jvm(java_class_path(), [], PluginFiles(properties, scan))


@pytest.mark.ci
def test_later_jvm_loads_plugins_from_the_first_scan(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    (original,) = (jar for jar in ensure("connect-4.3") if "connect-file" in jar.name)
    with (
        zipfile.ZipFile(original) as jar,
        zipfile.ZipFile(tmp_path / "file" / "file.jar", "w") as jar_without_manifests,
    ):
        for entry in jar.infolist():
            if not entry.filename.startswith(
                "META-INF/services/"
            ):  # so that only a scan of all classes finds the plugins
                jar_without_manifests.writestr(entry, jar.read(entry))
    jvm = create_jvm(tmp_path, "hybrid_warn")
    try:
        descriptions, scan = jvm.entry.describe(), jvm.entry.scan()
    finally:
        jvm.close()
    assert {plugin["class"].rpartition(".")[2] for plugin in json.loads(descriptions)} == {
        "FileStreamSinkConnector", "FileStreamSourceConnector",
    }  # fmt: skip
    later_jvm = create_jvm(tmp_path, "service_load", scan)  # service_load alone would find no plugins
    try:
        assert later_jvm.entry.describe() == descriptions
        assert json.loads(later_jvm.entry.scan()) == json.loads(scan)
    finally:
        later_jvm.close()
    without_class_path = json.dumps(
        [plugin for plugin in json.loads(scan) if plugin["location"] != "classpath"]
    )
    outdated_scan = without_class_path.replace("FileStreamSink", "Missing")
    scanning_jvm = create_jvm(tmp_path, "hybrid_warn", outdated_scan)
    try:
        assert json.loads(scanning_jvm.entry.scan()) == json.loads(scan), (
            "a scan with a missing class must be repeated"
        )
    finally:
        scanning_jvm.close()


def test_plugins_built_before_and_since_kafka_4_4_run_in_one_jvm(tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    for name, class_path in {"before44": ensure("connect-4.3"), "since44": java_class_path()}.items():
        (plugins / name).mkdir(parents=True)
        compile_jar(JAVA_SOURCES / name, class_path, plugins / name / "plugin.jar")
    jvm = create_jvm(plugins, "service_load")
    try:
        plugins_by_class = {plugin["class"]: plugin for plugin in json.loads(jvm.entry.describe())}
    finally:
        jvm.close()
    before, since = (plugins_by_class[f"kraal.testing.Utils{name}"] for name in ("Before44", "Since44"))
    assert (before["version"], since["version"]) == ("4.4.0", "4.4.0")
    results, current = (
        {key["name"]: key["documentation"] for key in plugin["keys"]} for plugin in (before, since)
    )
    assert results == {
        "class": current["class"],  # both plugins share one class and its state
        "exit": "The plugin called System.exit(3), which would have ended all plugins of this worker",
        "literal": "Sanitizer",
        "log": "[prefix] ",
        "nested": "7",
        "removed": "{t=[3]}",
        "subclass": "empty",
        "thread": "worker-1",
    }


def test_plugin_with_a_hung_config_method_is_listed_without_keys(tmp_path: Path) -> None:
    (tests,) = ensure("connect-tests")
    directory = tmp_path / "plugins" / "tests"
    directory.mkdir(parents=True)
    blocking_class = f"{BLOCKING_PREFIX}ConfigBlockingConnector"
    move_connectors(
        tests, directory / "moved.jar", {"source.SourceConnector": [blocking_class, MONITORABLE_SOURCE]}
    )
    for jar in (*ensure("junit"), *ensure("connect-4.3")):
        if "junit" in jar.name or "server-common" in jar.name:
            shutil.copy(jar, directory)
    jvm = create_jvm(tmp_path / "plugins", "service_load")
    try:
        plugins = {plugin["class"]: plugin for plugin in json.loads(jvm.entry.describe())}
    finally:
        jvm.close()
    assert plugins.keys() == {blocking_class, MONITORABLE_SOURCE}
    assert plugins[blocking_class]["keys"] == []
    assert plugins[blocking_class]["error"] == "it has not returned its config keys within 10 s"
    assert plugins[MONITORABLE_SOURCE]["task_class"].endswith("$MonitorableSourceTask")


def test_plugin_can_read_the_worker_file_named_in_the_java_command() -> None:
    jaas = 'x password="a=b c\\d #ü";'
    worker = {"bootstrap.servers": "b:9092", "sasl.jaas.config": jaas}
    files = PluginFiles({"plugin.path": "", "plugin.discovery": "service_load"})
    jvm = Jvm(java_class_path(), [], files, worker=worker)
    try:
        jvm.entry.scan()
        java = jvm._gateway.jvm.java  # the classes that a plugin would call
        main_class, path = java.lang.System.getProperty("sun.java.command").split(" ")
        for _ in range(2):  # a plugin may read the file with every config
            properties = java.util.Properties()
            properties.load(java.io.FileInputStream(path))
            assert properties.getProperty("sasl.jaas.config") == jaas
            assert properties.size() == 2
    finally:
        jvm.close()
    assert main_class == "org.apache.kafka.connect.cli.ConnectDistributed"


@pytest.mark.slow
def test_stopping_a_connector_aborts_its_blocked_start(
    kafka: Broker, tmp_path: Path, worker_properties: dict[str, str]
) -> None:
    converter = "org.apache.kafka.connect.storage.StringConverter"
    worker = {
        "bootstrap.servers": kafka.bootstrap,
        "key.converter": converter,
        "value.converter": converter,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
    }
    config = json.dumps(faulty_config("t", "block", "connector.start") | {"name": "c"})
    jvm, results = Jvm(java_class_path(), [], PluginFiles(worker_properties)), list[str | None]()
    try:
        jvm.entry.start(json.dumps(worker), True, 600_000)  # noqa: FBT003 - a Java method
        start_thread = threading.Thread(
            target=lambda: results.append(jvm.entry.startConnector("c", 1, config)), daemon=True
        )
        start_thread.start()
        deadline = time.monotonic() + 60
        while not any(name.startswith("connector-threa") for name in thread_names(jvm.process.pid)):
            assert time.monotonic() < deadline, "start must be called"
            time.sleep(0.1)
        assert results == []
        assert jvm.entry.stopConnector("c", 1) is None
        start_thread.join(60)
    finally:
        jvm.close()
    assert results == ["The connector was stopped before it had started"]
