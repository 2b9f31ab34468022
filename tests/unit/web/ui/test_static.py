"""Tests for static files: permanent caching, compression, licenses, size, and absence of `eval`."""

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
STATIC_FOLDER = ROOT / "web" / "ui" / "static"
VENDORED_FOLDER = STATIC_FOLDER / "vendored"
FILES = StaticFiles()


@pytest.mark.parametrize("name", sorted(FILES.files))
def test_static_file_is_cached_permanently_by_content_hash(name: str) -> None:
    client = TestClient(dashboard())
    response = client.get(FILES.url(name), headers={"Accept-Encoding": "gzip"})
    assert response.content == (STATIC_FOLDER / name).read_bytes()
    assert response.headers["content-encoding"] == "gzip"
    assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert response.headers["x-content-type-options"] == "nosniff"
    uncompressed_response = client.get(FILES.url(name), headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in uncompressed_response.headers
    assert sha256(uncompressed_response.content).hexdigest().startswith(FILES.url(name).split("/")[3])


@pytest.mark.parametrize(
    "path", ["0/kraal.css", "{hash}/nothing.css", "{hash}/../app.js", "{hash}/..%2f..%2fapp.py", "{hash}/"]
)
def test_unknown_static_path_is_not_found(path: str) -> None:
    digest = FILES.files["kraal.css"].hash
    assert TestClient(dashboard()).get("/ui/static/" + path.format(hash=digest)).status_code == 404


def test_vendored_files_match_the_license_file() -> None:
    text = (VENDORED_FOLDER / "LICENSES.md").read_text(encoding="utf-8")
    listed_hashes = dict(re.findall(r"^\| `([\w.]+)` \|.*`([0-9a-f]{64})` \|$", text, re.MULTILINE))
    actual_hashes = {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in VENDORED_FOLDER.iterdir()
        if path.name != "LICENSES.md"
    }
    assert listed_hashes == actual_hashes
    assert {"htmx.min.js", "uPlot.iife.min.js", "uPlot.min.css"} == listed_hashes.keys()


def test_gzipped_static_files_equal_the_originals() -> None:
    assert all(
        gzip.decompress(static_file.gzipped) == static_file.body for static_file in FILES.files.values()
    )


def test_first_visit_with_1000_connectors_transfers_less_than_60_kb() -> None:
    status = {
        "connector": {"state": "RUNNING", "worker_id": "10.0.0.1:8083"},
        "tasks": [{"id": 0, "state": "FAILED", "worker_id": "10.0.0.1:8083", "trace": "E: why"}],
        "type": "source",
    }
    names = [f"connector-{number:04d}" for number in range(1000)]
    config = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"}
    progress = {"tasks": [{"id": 0}], "recent_records_per_second": list(range(24))}
    source = FakeSource(
        {
            "/connectors?expand=status&traces=causes": {name: {"status": status} for name in names},
            "/connectors?expand=info": {name: {"info": {"config": config}} for name in names},
            "/connectors?expand=progress": {name: {"progress": progress} for name in names},
        },
        Features(kraal=True, progress=True),
    )
    page = TestClient(dashboard(source)).get("/ui/", headers={"Accept-Encoding": "gzip"})
    assert page.text.count("data-row") == 50
    static_names = re.findall(r'(?:href|src)="/ui/static/\w+/([^"]+)"', page.text)
    assert {"kraal.css", "app.js", "vendored/htmx.min.js"} <= set(static_names)
    total = int(page.headers["content-length"]) + sum(len(FILES.files[name].gzipped) for name in static_names)
    assert total < 60_000


@pytest.mark.parametrize("name", sorted(path.name for path in STATIC_FOLDER.glob("*.js")))
def test_scripts_do_not_evaluate_text(name: str) -> None:
    text = (STATIC_FOLDER / name).read_text(encoding="utf-8")
    assert not re.search(r"\beval\b|new Function|document\.write|setTimeout\(['\"`]", text)
