"""`java-plugins-rest`: listing, describing and validating ten Java plugins, before Kraal's JVMs are up.

The Java worker and the Kraal worker are clusters of one worker each, with the same `plugin.path`: ten directories, each
with a version of the source, transform, predicate and converter of `java/src/versioned`. Kraal is first started once
without measurement, so that its list of plugins is cached. In a measurement, the requests are sent over one connection
as soon as a worker responds to `GET /`. The run fails if Spark or Kraal's JVM of Java plugins was up before the last
response. The Java worker does not respond before it has scanned its plugins. The first response to each request is
shown separately, because it includes Kraal's lazy imports and is slowed by Java's cold JIT compiler.
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
from scripts.bench.report import Case, Target
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.workers import START_TIMEOUT_S, Worker

SOURCES = Path(__file__).parents[3] / "java" / "src" / "versioned"
PLUGINS = 10
REQUESTS_PER_KIND = 11
LIMIT_MS = 20.0
SPARK_STARTED = "Started Spark in"
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
    """Start each worker and send the requests immediately."""
    extra = {"plugin.path": str(_create_plugin_path(lab.directory))}
    response_times: dict[str, dict[str, list[float]]] = {}
    if "kraal" in lab.options.sides:
        _measure_responses(lab, "kraal", extra, wait=True)
    for kind in lab.options.sides:
        response_times[kind] = _measure_responses(lab, kind, extra, wait=False)
    cases = []
    for name in REQUESTS:
        java, kraal = (response_times.get(kind, {}).get(name, []) for kind in ("java", "kraal"))
        cases.append(Case(name, "ms", java[1:], kraal[1:], wanted=Target(limit=LIMIT_MS)))
        cases.append(Case("  first response", "ms", java[:1], kraal[:1]))
    return cases


def _create_plugin_path(directory: Path) -> Path:
    root = directory / "plugins"
    for number in range(PLUGINS):
        jar = root / str(number) / "versioned.jar"
        jar.parent.mkdir(parents=True)
        compile_jar(SOURCES, java_class_path(), jar)
        with zipfile.ZipFile(jar, "a") as archive:
            archive.writestr("version.txt", f"{number}.0")
    return root


def _measure_responses(
    lab: Lab, kind: str, extra: Mapping[str, str], *, wait: bool
) -> dict[str, list[float]]:
    """Start a worker; return its response times in milliseconds. With `wait`, first wait for its Java plugins."""
    cluster = lab.cluster(kind, extra)
    worker = cluster.launch()
    wait_until(
        f"{worker.name} was up",
        worker.rest.is_up,
        timeout_s=START_TIMEOUT_S,
        every_s=0.005,
        program=worker.process,
    )
    if wait:
        what = f"{worker.name} had its Java plugins"
        wait_until(what, lambda: _has_java_plugins(worker), timeout_s=START_TIMEOUT_S, program=worker.process)
    times: dict[str, list[float]] = {name: [] for name in REQUESTS}
    with httpx2.Client(base_url=worker.rest.url, timeout=START_TIMEOUT_S, trust_env=False) as client:
        for name, (method, path, body) in REQUESTS.items():
            for _ in range(REQUESTS_PER_KIND):
                start_s = time.perf_counter()
                client.request(method, path, json=body).raise_for_status()
                times[name].append((time.perf_counter() - start_s) * 1e3)
    if kind == "kraal" and not wait and (_has_java_plugins(worker) or _has_logged(worker, SPARK_STARTED)):
        raise ScriptFailed("Spark or the JVM of Java plugins was up before the last response.")
    cluster.stop()
    return times


def _has_java_plugins(worker: Worker) -> bool:
    return _has_logged(worker, READY)


def _has_logged(worker: Worker, text: str) -> bool:
    return text in worker.process.log.read_text(encoding="utf-8", errors="replace")
