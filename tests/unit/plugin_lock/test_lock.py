"""Tests for parsing plugin locks, and for loading them in a worker, which verifies all files first."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kraal.plugin_lock import change
from kraal.plugin_lock.jars import guess_artifacts
from kraal.plugin_lock.lock import (
    Lock,
    LockedPlugin,
    PluginLockError,
    format_lock,
    parse_lock,
    read_lock,
    write_lock,
)
from kraal.plugin_lock.start import load_plugins, load_worker_plugins
from kraal.plugin_lock.wheels import unpack, wheel_name

ROOT = Path(__file__).parents[3]
CODE = """
import sys
from pathlib import Path
from kraal.plugin_lock.start import load_worker_plugins
from kraal.plugins.registry import Registry

jars = load_worker_plugins(Path(sys.argv[1]))
print([jar.name for jar in jars], Registry.load().connector("Ticks").version, sys.path[-1])
"""
PLUGIN = """
from kraal.plugins.api import ConfigDef, Connector

class Ticks(Connector):
    kind, version, config_def = "source", "7.8", ConfigDef(())

    def start(self, config, context): ...
    def task_configs(self, max_tasks): return []
"""


def wheel(directory: Path, name: str, version: str, *, requires: str = "", **extra: str) -> Path:
    """Write a wheel with a connector directly, because building one takes seconds."""
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}.py", PLUGIN)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        file.writestr(f"{info}/METADATA", metadata + (f"Requires-Dist: {requires}\n" if requires else ""))
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/entry_points.txt", f"[kraal.connectors]\nx.Ticks = {name}:Ticks\n")
        file.writestr(f"{info}/RECORD", "")
        for name_in_wheel, text in extra.items():
            file.writestr(name_in_wheel, text)
    return path


def make_locked_plugin(path: Path, name: str) -> LockedPlugin:
    return LockedPlugin(name, path.name, hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """Return the path of a lock with one jar and one wheel, whose files exist."""
    files = tmp_path / "plugins"
    files.mkdir()
    jar = files / "org__driver__1.jar"
    jar.write_bytes(b"a jar")
    path = tmp_path / "plugins.lock"
    ticks = wheel(files, "ticks_x", "1.0")
    write_lock(
        path,
        Lock(
            ("org:driver:1", ticks.name),
            (make_locked_plugin(jar, "org:driver:1"),),
            (make_locked_plugin(ticks, "ticks-x==1.0"),),
        ),
    )
    return path


def test_lock_round_trips(lock: Path) -> None:
    parsed = read_lock(lock)
    assert parse_lock(format_lock(parsed)) == parsed
    assert [entry.module for entry in parsed.entries] == ["org:driver", "ticks-x"]


def test_worker_loads_connectors_from_wheels_and_jars_for_spark(lock: Path, tmp_path: Path) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text(f"kraal.plugins.lock={lock}\n", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-c", CODE, str(worker)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    [site] = (tmp_path / "plugins").glob("site-*")
    assert result.stdout == f"['org__driver__1.jar'] 7.8 {site}\n"


def test_worker_without_a_lock_loads_no_plugins(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lock.parent)
    (tmp_path / "worker.properties").write_text("a=b\n", encoding="utf-8")
    assert load_worker_plugins(tmp_path / "worker.properties") == ()


@pytest.mark.parametrize("name", ["org__driver__1.jar", "ticks_x-1.0-py3-none-any.whl"])
def test_modified_file_fails_startup_before_plugins_are_loaded(lock: Path, name: str) -> None:
    file = lock.parent / "plugins" / name
    path_before = list(sys.path)
    with file.open("ab") as out:
        out.write(b"x")
    with pytest.raises(PluginLockError, match=r"does not match .*plugins\.lock: expected sha256 ") as raised:
        load_plugins(lock)
    assert "\n" not in str(raised.value)
    file.unlink()
    with pytest.raises(PluginLockError, match=r"Cannot read .*No such file"):
        load_plugins(lock)
    assert sys.path == path_before
    assert not list((lock.parent / "plugins").glob("site-*"))


def test_standalone_worker_prints_an_error_and_a_hint_and_exits_with_2(lock: Path, tmp_path: Path) -> None:
    (lock.parent / "plugins" / "org__driver__1.jar").write_bytes(b"another")
    worker = tmp_path / "worker.properties"
    worker.write_text(f"kraal.plugins.lock={lock}\n", encoding="utf-8")
    code = "from kraal.cli.main import main; main(prog_name='kraal')"
    result = subprocess.run(
        [sys.executable, "-c", code, "standalone", str(worker)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr.count("\n")) == (2, 2)
    assert result.stderr.splitlines()[1].startswith("Hint: Copy the directory together with the lock")
    assert result.stderr.startswith(f"Error: {tmp_path}/plugins/org__driver__1.jar does not match {lock}:")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version = 2\nadded = []", "unsupported version 2; expected 1"),
        ("added = []", "'version' is missing"),
        ("nonsense", "Expected"),
        (
            'version=1\nadded=[]\n[[jar]]\nname="a:b:1"\nfile="../b.jar"\nsha256="x"',
            "'../b.jar' is not a valid name of",
        ),
        (
            'version=1\nadded=[]\n[[jar]]\nname="a:b:1"\nfile="b.whl"\nsha256="x"',
            "'b.whl' is not a valid name of a .jar",
        ),
        ('version=1\nadded=[]\n[[jar]]\nname="a:b:1"\nfile="b.jar"\nsha256="AB"', "'AB' is not a sha256"),
        ("version=1\nadded=7", "not iterable"),
        ("version=1\nadded=[]\njar=[7]", "not subscriptable"),
    ],
)
def test_invalid_lock_is_rejected(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.lock"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PluginLockError, match="Invalid plugin lock ") as caught:
        read_lock(path)
    assert message in str(caught.value)


def test_lock_name_must_end_with_lock(tmp_path: Path) -> None:
    with pytest.raises(PluginLockError, match=r"expected a name that ends with \.lock"):
        read_lock(tmp_path / "plugins.toml")


def test_wheel_is_unpacked_without_scripts_and_cannot_escape_the_directory(tmp_path: Path) -> None:
    data = "good-1.0.data"
    valid_wheel = wheel(
        tmp_path, "good", "1.0", **{f"{data}/purelib/more.py": "A = 1", f"{data}/scripts/run": "rm"}
    )
    unpack([valid_wheel], tmp_path / "site")
    assert {path.name for path in (tmp_path / "site").iterdir()} == {
        "good.py",
        "more.py",
        "good-1.0.dist-info",
    }
    unsafe_wheel = wheel(tmp_path, "bad", "1.0", **{"../outside.py": "A = 1"})
    with pytest.raises(PluginLockError, match=r"the path '\.\./outside\.py' is absolute or contains"):
        unpack([unsafe_wheel], tmp_path / "other")
    assert not (tmp_path / "outside.py").exists()
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["x.whl", "a-1.0.whl", "a b-1-py3-none-any.whl"])
def test_invalid_wheel_name_is_rejected(name: str) -> None:
    with pytest.raises(PluginLockError, match="Invalid wheel name"):
        wheel_name(name)


def test_versions_are_stripped_from_jar_names() -> None:
    stems = ["antlr4-runtime-4.13.1", "guava-33.4.0-jre", "log4j-1.2-api-2.24.3", "spark-core_2.13-4.2.0"]
    assert {"antlr4-runtime", "guava", "log4j-1.2-api", "spark-core_2.13"} <= set(guess_artifacts(stems))


@pytest.mark.parametrize("text", ["a b", "-r x", "a@file:///x", "org:name", "http://x/y.zip", "a==1\n"])
def test_invalid_requirement_is_rejected_before_pip_runs(tmp_path: Path, text: str) -> None:
    with pytest.raises(PluginLockError, match="expected Maven coordinates"):
        change.add(tmp_path / "a.lock", [text])
    assert not (tmp_path / "a.lock").exists()
