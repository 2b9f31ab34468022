"""Tests that the commands in docs/plugin-howto.md work, except those that require a broker or Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from kraal.cli.main import main
from tests.fakes.workers.howto import ROOT, blocks, follow, properties

CODE = """
import json, sys
from pathlib import Path
from kraal.config.worker.standalone import load_standalone
from kraal.plugin_lock.start import load_worker_plugins
from kraal.plugins.registry import Registry
from kraal.testing import Cluster

worker = Path("worker.properties")
assert not load_worker_plugins(worker)
assert not load_standalone(worker, resolve=Registry.load().resolve).warnings
config = json.loads(Path("connector.json").read_text())
connector = Registry.load().connector_class(config["connector.class"])
with Cluster(workers=1, plugins={config["connector.class"]: connector}) as c:
    c.create(config.pop("name"), config)
    c.wait_until("both are reported", lambda: {record.key for record in c.records("disk-space")} == {b"/", b"/tmp"})
print(connector.__name__, Path(sys.modules[connector.__module__].__file__).parents[1].name)
"""


def test_commands_of_the_page_create_and_register_the_connector(tmp_path: Path) -> None:
    project = follow(tmp_path)
    (project / "worker.properties").write_text(
        "".join(f"{key}={value}\n" for key, value in properties().items()), encoding="utf-8"
    )
    result = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=project,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},  # do not import from the new project
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    name, distribution_directory = result.stdout.split()
    assert (name, distribution_directory.startswith("site-")) == ("DiskSpaceSource", True)


def test_worker_commands_on_the_page_exist_with_their_options() -> None:
    lines = [line.split() for text in blocks("sh") for line in text.splitlines()]
    assert len(lines) == 8
    for _, *words in lines:
        option_index = words.index("--worker") if "--worker" in words else None
        assert option_index is None or words[option_index + 1].startswith("http://")
        command = words[:2] if words[0] in ("kafka", "plugins", "offsets") else words[:1]
        result = CliRunner().invoke(main, [*command, "--help"], prog_name="kraal")
        assert result.exit_code == 0, words
        assert all(word in result.stdout for word in words if word.startswith("--"))


def test_config_on_the_page_is_json() -> None:
    [text] = blocks("json")
    assert json.loads(text)["connector.class"] == "disk_space.DiskSpaceSource"
