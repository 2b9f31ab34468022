"""docs/plugin-howto.md does what it says, as far as no broker and no Spark are needed."""

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
from kraal.config.worker.standalone import load_worker_properties
from kraal.plugin_lock.start import jars_of_worker
from kraal.plugins.registry import Registry
from kraal.testing import Cluster

worker = Path("worker.properties")
assert not jars_of_worker(worker)
assert not load_worker_properties(worker, resolve=Registry.load().resolve).warnings
config = json.loads(Path("connector.json").read_text())
found = Registry.load().connector_class(config["connector.class"])
with Cluster(workers=1, plugins={config["connector.class"]: found}) as c:
    c.create(config.pop("name"), config)
    c.wait_until("both disks were told", lambda: {record.key for record in c.records("disk-space")} == {b"/", b"/tmp"})
print(found.__name__, Path(sys.modules[found.__module__].__file__).parents[1].name)
"""


def test_the_page_leads_from_nothing_to_a_worker_with_the_connector(tmp_path: Path) -> None:
    project = follow(tmp_path)
    (project / "worker.properties").write_text(
        "".join(f"{key}={value}\n" for key, value in properties().items()), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"},  # not from the project itself
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    name, site = done.stdout.split()
    assert (name, site.startswith("site-")) == ("DiskSpaceSource", True)


def test_each_command_that_runs_on_a_worker_exists_with_its_options() -> None:
    lines = [line.split() for text in blocks("sh") for line in text.splitlines()]
    assert len(lines) == 8
    for _, *words in lines:
        at = words.index("--worker") if "--worker" in words else None
        assert at is None or words[at + 1].startswith("http://")
        command = words[:2] if words[0] in ("kafka", "plugins", "offsets") else words[:1]
        result = CliRunner().invoke(main, [*command, "--help"], prog_name="kraal")
        assert result.exit_code == 0, words
        assert all(word in result.stdout for word in words if word.startswith("--"))


def test_the_page_s_config_is_json() -> None:
    [text] = blocks("json")
    assert json.loads(text)["connector.class"] == "disk_space.DiskSpaceSource"
