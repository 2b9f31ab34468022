"""`java-plugins-rest`: listing, describing and validating ten Java plugins, before Kraal's JVMs are up.

Both are clusters of one worker with the same `plugin.path`: ten directories, each with a version of the source,
transform, predicate and converter of `java/src/versioned`. Kraal starts once before, unmeasured, which caches its list
of plugins. Then, as soon as it answers `GET /`, each request is sent over one connection; the run fails if Spark or the
JVM of Java plugins was up by the end. Java's worker has no list before it is up: it is asked when it answers. Of each
request the first answer is shown apart: Kraal imports what it needs then, and Java's compiler is cold.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import httpx2

from kraal.jars.java_module import compile_jar, java_class_path
from scripts.bench.data.java_plugins import READY
from scripts.bench.lab import Lab
from scripts.bench.report import Case, Wanted
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.workers import START_TIMEOUT_S, Worker

SOURCES = Path(__file__).parents[3] / "java" / "src" / "versioned"
PLUGINS = 10
ASKED = 11
LIMIT_MS = 20.0
SPARK = "Started Spark in"
SOURCE = "kraal.testing.VersionedSource"
CONFIG = {
    "name": "any",
    "connector.class": SOURCE,
    "connector.plugin.version": "3.0",
    "topic": "t",
    "transforms": "t",
    "transforms.t.type": "kraal.testing.VersionedTransform",
    "value.converter": "kraal.testing.VersionedConverter",
}
REQUESTS: Mapping[str, tuple[str, str, Mapping[str, str] | None]] = {
    "GET /connector-plugins": ("GET", "/connector-plugins?connectorsOnly=false", None),
    "GET …/config": ("GET", f"/connector-plugins/{SOURCE}/config?version=3.0", None),
    "PUT …/config/validate": ("PUT", f"/connector-plugins/{SOURCE}/config/validate", CONFIG),
}


def run(lab: Lab) -> list[Case]:
    """Start each, and ask it at once."""
    extra = {"plugin.path": str(_plugins(lab.directory))}
    measured: dict[str, dict[str, list[float]]] = {}
    if "kraal" in lab.options.sides:
        _asked(lab, "kraal", extra, wait=True)
    for kind in lab.options.sides:
        measured[kind] = _asked(lab, kind, extra, wait=False)
    cases = []
    for name in REQUESTS:
        java, kraal = (measured.get(kind, {}).get(name, []) for kind in ("java", "kraal"))
        cases.append(Case(name, "ms", java[1:], kraal[1:], wanted=Wanted(limit=LIMIT_MS)))
        cases.append(Case("  the first", "ms", java[:1], kraal[:1]))
    return cases


def _plugins(directory: Path) -> Path:
    place = directory / "plugins"
    for number in range(PLUGINS):
        jar = place / str(number) / "versioned.jar"
        jar.parent.mkdir(parents=True)
        compile_jar(SOURCES, java_class_path(), jar)
        with zipfile.ZipFile(jar, "a") as opened:
            opened.writestr("version.txt", f"{number}.0")
    return place


def _asked(lab: Lab, kind: str, extra: Mapping[str, str], *, wait: bool) -> dict[str, list[float]]:
    """Start a worker, and return the times of its answers in milliseconds. `wait`: first until its plugins are up."""
    cluster = lab.cluster(kind, extra)
    worker = cluster.launch()
    wait_until(
        f"{worker.name} answered",
        worker.rest.answers,
        timeout_s=START_TIMEOUT_S,
        every_s=0.005,
        program=worker.process,
    )
    if wait:
        what = f"{worker.name} had its Java plugins"
        wait_until(what, lambda: _ready(worker), timeout_s=START_TIMEOUT_S, program=worker.process)
    times: dict[str, list[float]] = {name: [] for name in REQUESTS}
    with httpx2.Client(base_url=worker.rest.url, timeout=START_TIMEOUT_S, trust_env=False) as client:
        for name, (method, path, body) in REQUESTS.items():
            for _ in range(ASKED):
                begun = time.perf_counter()
                client.request(method, path, json=body).raise_for_status()
                times[name].append((time.perf_counter() - begun) * 1e3)
    if kind == "kraal" and not wait and (_ready(worker) or _logged(worker, SPARK)):
        raise ScriptFailed("Spark or the JVM of Java plugins was up before all requests were answered.")
    cluster.stop()
    return times


def _ready(worker: Worker) -> bool:
    return _logged(worker, READY)


def _logged(worker: Worker, text: str) -> bool:
    return text in worker.process.log.read_text(encoding="utf-8", errors="replace")
