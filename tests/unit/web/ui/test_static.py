"""Tests for static files: permanent caching, compression, licenses, size, and no evaluated text."""

from __future__ import annotations

import gzip
import re
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.unit.web.ui.fake_source import FakeSource, dashboard
from web.ui.features import Features
from web.ui.static import StaticFiles

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "web" / "ui" / "static"
VENDORED = FOLDER / "vendored"
FILES = StaticFiles()


@pytest.mark.parametrize("name", sorted(FILES.files))
def test_static_file_is_cached_permanently_by_content_hash(name: str) -> None:
    client = TestClient(dashboard())
    response = client.get(FILES.url(name), headers={"Accept-Encoding": "gzip"})
    assert response.content == (FOLDER / name).read_bytes()
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["x-content-type-options"] == "nosniff"
    plain = client.get(FILES.url(name), headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert sha256(plain.content).hexdigest().startswith(FILES.url(name).split("/")[3])


@pytest.mark.parametrize(
    "path", ["0/kraal.css", "{hash}/nothing.css", "{hash}/../app.js", "{hash}/..%2f..%2fapp.py", "{hash}/"]
)
def test_unknown_static_path_is_not_found(path: str) -> None:
    digest = FILES.files["kraal.css"].hash
    assert TestClient(dashboard()).get("/ui/static/" + path.format(hash=digest)).status_code == 404


def test_vendored_files_match_the_license_file() -> None:
    text = (VENDORED / "LICENSES.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| `([\w.]+)` \|.*`([0-9a-f]{64})` \|$", text, re.MULTILINE))
    names = {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in VENDORED.iterdir()
        if path.name != "LICENSES.md"
    }
    assert named == names
    assert {"htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css"} == named.keys()


def test_static_files_are_compressed_once() -> None:
    assert all(gzip.decompress(each.gzipped) == each.body for each in FILES.files.values())


def test_first_visit_with_1000_connectors_transfers_less_than_200_kb() -> None:
    status = {
        "connector": {"state": "RUNNING", "worker_id": "10.0.0.1:8083"},
        "tasks": [{"id": 0, "state": "FAILED", "worker_id": "10.0.0.1:8083", "trace": "E: why"}],
        "type": "source",
    }
    names = [f"connector-{number:04d}" for number in range(1000)]
    config = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    recent = {"tasks": [{"id": 0}], "recent_records_per_second": list(range(24))}
    source = FakeSource(
        {
            "/connectors?expand=status&traces=causes": {name: {"status": status} for name in names},
            "/connectors?expand=info": {name: {"info": {"config": config}} for name in names},
            "/connectors?expand=progress": {name: {"progress": recent} for name in names},
        },
        Features(kraal=True, progress=True),
    )
    page = TestClient(dashboard(source)).get("/ui/", headers={"Accept-Encoding": "gzip"})
    assert page.text.count("data-row") == 50
    static = re.findall(r'(?:href|src)="/ui/static/\w+/([^"]+)"', page.text)
    assert {"kraal.css", "app.js", "vendored/htmx.min.js"} <= set(static)
    total = int(page.headers["content-length"]) + sum(len(FILES.files[name].gzipped) for name in static)
    assert total < 60_000


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.js")))
def test_scripts_do_not_evaluate_text(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert not re.search(r"\beval\b|new Function|document\.write|setTimeout\(['\"`]", text)
