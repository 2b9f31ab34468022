"""Tests for the start of Spark's JVM: the command line, and the private files."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import javaproperties
import pytest

from kraal.engine.session.gateway import GatewayFailed, StartingJvm
from kraal.jars.java import find_java

SUBMIT = f"""#!{sys.executable}
import json, os, pathlib, sys
folder = pathlib.Path(sys.argv[2]).parent
received = {{"argv": sys.argv[1:], "environ": dict(os.environ)}}
folder_mode = folder.stat().st_mode
received["files"] = {{path.name: [path.read_text(), path.stat().st_mode, folder_mode] for path in folder.iterdir()}}
print(json.dumps(received))
"""


def start_launcher(folder: Path, settings: Mapping[str, str], patch: pytest.MonkeyPatch) -> dict[str, object]:
    """Start a fake spark-submit; return its arguments, environment and files, which it prints as JSON."""
    submit = folder / "home" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(SUBMIT)
    submit.chmod(0o700)
    patch.setenv("SPARK_HOME", str(folder / "home"))
    patch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    with (folder / "out").open("wb") as out:
        starting_jvm = StartingJvm.launch(settings, out, folder)
    try:
        starting_jvm.process.communicate(timeout=30)
    finally:
        starting_jvm.remove_files()
    assert not starting_jvm.directory.exists()
    output: dict[str, object] = json.loads((folder / "out").read_text())
    return output


def test_settings_are_not_on_the_command_line_or_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "spark.hadoop.fs.s3a.secret.key": "one secret = \\ ä☃\n#!",
        "spark.driver.defaultJavaOptions": "-Ddefault=first",
        "spark.driver.extraJavaOptions": '"-Da=two secret" \'-Db="x" \\y\' -Dc=#1 @/etc/mine "-Dd=\\"q\\""',
        "spark.driver.memory": "1g",
    }
    launch = start_launcher(tmp_path, settings, monkeypatch)
    files = launch["files"]
    assert isinstance(files, dict)
    argv = launch["argv"]
    assert isinstance(argv, list)
    assert argv[:1] + argv[2:] == ["--properties-file", "--load-spark-defaults", "pyspark-shell"]
    output = json.dumps([argv, launch["environ"]])
    assert "secret" not in output.replace("SECRET", "").replace(str(tmp_path), "")
    for _, mode, folder_mode in files.values():
        assert (stat.S_IMODE(mode), stat.S_IMODE(folder_mode)) == (0o600, 0o700)
    properties = javaproperties.loads(files["spark.properties"][0])
    options = Path(argv[1]).with_name("java.options")
    assert properties == {
        **settings,
        "spark.driver.defaultJavaOptions": "",
        "spark.driver.extraJavaOptions": f'"@{options}" "@/etc/mine"',
    }
    assert files["java.options"][0].splitlines() == [
        '"-Ddefault=first"',
        '"-Da=two secret"',
        '"-Db=\\"x\\" \\\\y"',
        '"-Dc=#1"',
        '"-Dd=\\"q\\""',
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-Xmx2g", r"spark\.driver\.extraJavaOptions must not contain -Xmx.*: set spark\.driver\.memory"),
        (
            "-Da=1 -Dspark.x=secret",
            r"spark\.driver\.extraJavaOptions must not contain -Dspark.*: .* `spark\.\*` ",
        ),
        ('"-Da=secret', r"spark\.driver\.extraJavaOptions has an unterminated quote"),
    ],
)
def test_rejected_java_options_are_reported_without_their_values(
    options: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GatewayFailed, match=message) as raised:
        start_launcher(tmp_path, {"spark.driver.extraJavaOptions": options}, monkeypatch)
    assert "secret" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("start-")] == []
    assert (tmp_path / "out").read_bytes() == b""


def test_java_options_are_quoted_in_the_argument_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '"-Da=two\nlines" \'-Db="x" \\y\' -Dc=#1 "-Dd=\\"q\\""'
    launch = start_launcher(tmp_path, {"spark.driver.extraJavaOptions": text}, monkeypatch)
    files = launch["files"]
    assert isinstance(files, dict)
    options = tmp_path / "again.options"
    options.write_text(files["java.options"][0])
    output = subprocess.run(
        [find_java(), f"@{options}", "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    lines = {line.strip() for line in output.splitlines()}
    assert {"a = two", "lines", 'b = "x" \\y', "c = #1", 'd = "q"'} <= lines
