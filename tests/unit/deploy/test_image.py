"""Tests that the Dockerfile and compose.yaml refer to existing files and are consistent with the chart and the code."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typing_extensions import override

from kraal.broker.broker import free_port
from kraal.config.properties_file import read_properties
from kraal.config.worker.distributed import parse_distributed
from kraal.jars.jars import LOCK, parse_lock
from kraal.jars.java import SUPPORTED, VECTOR_MODULE, find_java
from kraal.worker.process import CLOSE_TIMEOUT_S, FORCED_EXIT_DELAY_S, SHUTDOWN_GRACE_S

ROOT: Final = Path(__file__).parents[3]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: Final[Mapping[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: Final = COMPOSE["services"]
WORKERS: Final = ("worker-1", "worker-2")
HEALTH: Final = json.loads(DOCKERFILE.split("HEALTHCHECK")[1].split("CMD ", 1)[1].splitlines()[0])
"""The command of the image's health check."""
COMPOSE_FILES: Final = ROOT / "deploy" / "image" / "compose"


def instructions(name: str) -> list[str]:
    """Return the arguments of each instruction of the Dockerfile with this name, on one line each."""
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


def test_dockerfile_passes_hadolint() -> None:
    program = shutil.which("hadolint")
    assert program is not None, "hadolint is missing: install requirements.lock"
    result = subprocess.run([program, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")


def test_compose_file_matches_its_schema() -> None:
    program = shutil.which("check-jsonschema")
    assert program is not None, "check-jsonschema is missing: install requirements.lock"
    command = [program, "--builtin-schema", "vendor.compose-spec", "compose.yaml"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def list_copied_paths() -> Iterator[str]:
    """Yield the paths of the clone that are copied into the image."""
    for line in instructions("COPY"):
        if not line.startswith("--from="):
            yield from line.split()[:-1]


@pytest.mark.parametrize("path", list(list_copied_paths()))
def test_copied_paths_exist_and_are_not_ignored(path: str) -> None:
    assert (ROOT / path).exists()
    is_ignored = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if not line.startswith("#") and (fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/")):
            is_ignored = not line.startswith("!")
    assert not is_ignored


def test_all_sources_of_the_wheel_are_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {*wheel["packages"], *(name.partition("/")[0] for name in wheel["force-include"])}
    files = {name for name in project["project"]["license-files"] if "/" not in name}
    assert folders | files | {project["project"]["readme"], "pyproject.toml"} <= set(list_copied_paths())


def test_java_is_supported_and_has_the_modules_of_spark() -> None:
    [version] = re.findall(r"openjdk-(\d+)-jdk-headless", DOCKERFILE)
    assert int(version) in SUPPORTED
    modules = (ROOT / "deploy/image/jlink.args").read_text(encoding="utf-8").split()
    assert VECTOR_MODULE in modules


def test_jar_groups_exist() -> None:
    [groups] = re.findall(r"kraal jars ([a-z ]+)", DOCKERFILE)
    assert set(groups.split()) <= parse_lock(LOCK.read_text(encoding="utf-8")).keys()
    assert {"spark", "plugins", "compiler"} == set(groups.split())


def test_user_and_port_equal_those_of_the_chart() -> None:
    values = yaml.safe_load((ROOT / "deploy/chart/kraal/values.yaml").read_text(encoding="utf-8"))
    pod = values["podSecurityContext"]
    assert instructions("USER") == [f"{pod['runAsUser']}:{pod['runAsGroup']}"]
    assert instructions("EXPOSE") == [str(values["rest"]["port"])]


def test_container_runs_kraal_distributed() -> None:
    [entry] = instructions("ENTRYPOINT")
    assert json.loads(entry)[-1] == "kraal"
    [command] = instructions("CMD")
    assert json.loads(command) == ["distributed", "/etc/kraal/worker.properties"]


def test_java_has_the_modules_for_jlink() -> None:
    available_modules = subprocess.run(
        [find_java(), "--list-modules"], capture_output=True, text=True, check=True
    ).stdout
    jlink_arguments = (ROOT / "deploy/image/jlink.args").read_text(encoding="utf-8")
    required_modules = re.findall(r"^--add-modules (\S+)$", jlink_arguments, re.MULTILINE)
    assert (
        set(required_modules) - {line.partition("@")[0] for line in available_modules.splitlines()} == set()
    )


@pytest.fixture
def status_server() -> Iterator[list[int]]:
    """Yield a list with the port of a server, which responds with the last status that a test appends to the list."""
    state: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(state[-1] if self.path == "/health" else 404)
            self.end_headers()

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.append(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield state
        server.shutdown()


def run_health_check(port: int) -> int:
    """Run the health check of the image, and return its exit code."""
    environment = os.environ | {
        "KRAAL_HEALTH_URL": f"http://127.0.0.1:{port}/health",
        "http_proxy": "http://none:1",
    }
    program = [sys.executable, *HEALTH[1:-1], str(ROOT / "deploy/image/health.py")]
    return subprocess.run(program, env=environment, capture_output=True, check=False).returncode


def test_health_check_fails_if_the_worker_is_unhealthy(status_server: list[int]) -> None:
    for status, exit_code in ((200, 0), (503, 1), (404, 1)):
        status_server.append(status)
        assert run_health_check(status_server[0]) == exit_code, status
    assert run_health_check(free_port()) == 1


def test_health_check_uses_an_existing_file_and_the_port_of_the_worker() -> None:
    directory = next(line.split()[-1] for line in instructions("COPY") if "health.py" in line)
    assert HEALTH[-1] == f"{directory}health.py"
    health_check = (ROOT / "deploy/image/health.py").read_text(encoding="utf-8")
    assert f'"http://127.0.0.1:{instructions("EXPOSE")[0]}/health"' in health_check


def test_compose_mounts_existing_files() -> None:
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    files = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
    assert len(files) >= 6
    assert [path for path in files if not (ROOT / path).exists()] == []
    named_volumes = {mount.split(":")[0] for mount in mounts if not mount.startswith("./")}
    assert named_volumes == COMPOSE["volumes"].keys()


def test_compose_publishes_ports_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 6
    assert {port.split(":")[0] for port in ports} == {"127.0.0.1"}
    assert len({port.split(":")[1] for port in ports}) == len(ports)


@pytest.mark.parametrize("name", WORKERS)
def test_compose_worker_is_restricted_like_a_pod_and_has_the_postgresql_driver(name: str) -> None:
    worker = SERVICES[name]
    assert worker["read_only"] is True
    assert worker["cap_drop"] == ["ALL"]
    assert worker["security_opt"] == ["no-new-privileges:true"]
    assert [mount.partition(":")[0] for mount in worker["tmpfs"]] == ["/tmp"]  # noqa: S108
    assert shlex.split(worker["build"]["args"]["PLUGINS"]) == [
        str(jar.coordinates) for jar in parse_lock(LOCK.read_text(encoding="utf-8"))["postgresql"]
    ]


def test_compose_worker_properties_are_valid() -> None:
    values = read_properties(COMPOSE_FILES / "worker.properties", "the worker's file")
    config = parse_distributed(values)
    assert config.group_id == "kraal"
    assert values["bootstrap.servers"] in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_compose_workers_use_the_directories_and_the_port_of_the_image() -> None:
    values = read_properties(COMPOSE_FILES / "worker.properties", "the worker's file")
    [volume] = instructions("VOLUME")
    [command] = instructions("CMD")
    assert values["kraal.data.dir"].startswith(f"{volume}/")
    assert f"--lock {values['kraal.plugins.lock']} " in DOCKERFILE
    assert values["listeners"] == f"http://:{instructions('EXPOSE')[0]}"
    for name in WORKERS:
        mounted_paths = {mount.split(":")[1] for mount in SERVICES[name]["volumes"]}
        assert mounted_paths == {volume, json.loads(command)[-1]}
        assert SERVICES[name]["ports"][0].endswith(f":{instructions('EXPOSE')[0]}")


def test_compose_worker_has_enough_memory_and_stop_time() -> None:
    values = read_properties(COMPOSE_FILES / "worker.properties", "the worker's file")
    stop_timeout_s = (
        parse_distributed(values).graceful_timeout_s
        + SHUTDOWN_GRACE_S
        + CLOSE_TIMEOUT_S
        + FORCED_EXIT_DELAY_S
    )
    for name in WORKERS:
        assert int(SERVICES[name]["stop_grace_period"].removesuffix("s")) >= stop_timeout_s
        heap = values["spark.driver.memory"].removesuffix("g")
        assert int(SERVICES[name]["mem_limit"].removesuffix("g")) == 2 * int(heap)


def test_compose_prometheus_scrapes_the_workers_with_mounted_rules() -> None:
    config = yaml.safe_load((COMPOSE_FILES / "prometheus.yml").read_text(encoding="utf-8"))
    [job] = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"{name}:8083" for name in WORKERS]}]
    mounted_paths = [mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"]]
    assert {f"/etc/prometheus/{name}" for name in config["rule_files"]} <= set(mounted_paths)


def read_provisioning(name: str, fields: frozenset[str]) -> Mapping[str, Any]:
    """Return the only entry of a Grafana provisioning file, after checking its version and fields."""
    file = yaml.safe_load((COMPOSE_FILES / f"grafana-{name}.yml").read_text(encoding="utf-8"))
    assert file.pop("apiVersion") == 1
    [[entry]] = [file.pop("providers" if name == "dashboards" else name)]
    assert file == {}
    assert entry.keys() <= fields
    mounted_paths = dict(mount.split(":")[:2] for mount in SERVICES["grafana"]["volumes"])
    assert mounted_paths[f"./deploy/image/compose/grafana-{name}.yml"].startswith(
        f"/etc/grafana/provisioning/{name}/"
    )
    return dict(entry)


def test_compose_grafana_provisions_the_dashboard_and_its_data_source() -> None:
    source = read_provisioning(
        "datasources", frozenset({"name", "type", "access", "url", "isDefault", "uid", "jsonData"})
    )
    assert source["url"] == "http://prometheus:9090"
    assert source["type"] == "prometheus"
    assert source["isDefault"] is True
    provider = read_provisioning(
        "dashboards", frozenset({"name", "type", "options", "folder", "allowUiUpdates"})
    )
    mounts = dict(mount.split(":")[:2] for mount in SERVICES["grafana"]["volumes"])
    assert provider["type"] == "file"
    assert mounts["./deploy/grafana"] == provider["options"]["path"]
