"""The Dockerfile and compose.yaml name what exists, and agree with the chart and the code."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kraal.config.properties_file import read_properties
from kraal.config.worker.distributed import parse_distributed
from kraal.jars.jars import LOCK, parse_lock
from kraal.jars.java import SUPPORTED, VECTOR_MODULE

ROOT: Final = Path(__file__).parents[3]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: Final[Mapping[str, Any]] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: Final = COMPOSE["services"]
WORKERS: Final = ("worker-1", "worker-2")
PARTS: Final = ROOT / "deploy" / "image" / "compose"


def instructions(name: str) -> list[str]:
    """Return the arguments of each instruction of the Dockerfile with this name, on one line each."""
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE)).splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{name} ")]


def test_hadolint_has_no_objections() -> None:
    program = shutil.which("hadolint")
    assert program is not None, "hadolint is missing: install requirements.lock"
    done = subprocess.run([program, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def copied() -> Iterator[str]:
    """Yield the paths of the clone that the image is built from."""
    for line in instructions("COPY"):
        if not line.startswith("--from="):
            yield from line.split()[:-1]


@pytest.mark.parametrize("path", list(copied()))
def test_what_is_copied_exists_and_is_not_ignored(path: str) -> None:
    assert (ROOT / path).exists()
    ignored = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if not line.startswith("#") and (fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/")):
            ignored = not line.startswith("!")
    assert not ignored


def test_everything_that_the_wheel_contains_is_copied() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = {*wheel["packages"], *(name.partition("/")[0] for name in wheel["force-include"])}
    files = {name for name in project["project"]["license-files"] if "/" not in name}
    assert folders | files | {project["project"]["readme"], "pyproject.toml"} <= set(copied())


def test_java_is_a_supported_one_with_what_spark_requires() -> None:
    [version] = re.findall(r"openjdk-(\d+)-jdk-headless", DOCKERFILE)
    assert int(version) in SUPPORTED
    modules = (ROOT / "deploy/image/jlink.args").read_text(encoding="utf-8").split()
    assert VECTOR_MODULE in modules


def test_the_groups_of_jars_exist() -> None:
    [groups] = re.findall(r"kraal jars ([a-z ]+)", DOCKERFILE)
    assert set(groups.split()) <= parse_lock(LOCK.read_text(encoding="utf-8")).keys()
    assert {"spark", "plugins", "compiler"} == set(groups.split())


def test_the_user_and_the_port_are_those_of_the_chart() -> None:
    values = yaml.safe_load((ROOT / "deploy/chart/kraal/values.yaml").read_text(encoding="utf-8"))
    pod = values["podSecurityContext"]
    assert instructions("USER") == [f"{pod['runAsUser']}:{pod['runAsGroup']}"]
    assert instructions("EXPOSE") == [str(values["rest"]["port"])]


def test_arguments_of_the_container_are_those_of_kraal() -> None:
    [entry] = instructions("ENTRYPOINT")
    assert json.loads(entry)[-1] == "kraal"
    [command] = instructions("CMD")
    assert json.loads(command) == ["distributed", "/etc/kraal/worker.properties"]


def test_compose_mounts_files_that_exist() -> None:
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", [])]
    files = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
    assert len(files) >= 6
    assert [path for path in files if not (ROOT / path).exists()] == []
    named = {mount.split(":")[0] for mount in mounts if not mount.startswith("./")}
    assert named == COMPOSE["volumes"].keys()


def test_compose_is_reached_from_this_machine_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == 6
    assert {port.split(":")[0] for port in ports} == {"127.0.0.1"}
    assert len({port.split(":")[1] for port in ports}) == len(ports)


@pytest.mark.parametrize("name", WORKERS)
def test_a_worker_of_compose_has_no_more_rights_than_a_pod_of_the_chart(name: str) -> None:
    worker = SERVICES[name]
    assert worker["read_only"] is True
    assert worker["cap_drop"] == ["ALL"]
    assert worker["security_opt"] == ["no-new-privileges:true"]
    assert [mount.partition(":")[0] for mount in worker["tmpfs"]] == ["/tmp"]  # noqa: S108
    assert shlex.split(worker["build"]["args"]["PLUGINS"]) == [
        str(jar.coordinates) for jar in parse_lock(LOCK.read_text(encoding="utf-8"))["postgresql"]
    ]


def test_the_workers_of_compose_read_a_valid_file() -> None:
    values = read_properties(PARTS / "worker.properties", "the worker's file")
    config = parse_distributed(values)
    assert config.group_id == "kraal"
    assert values["bootstrap.servers"] in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_prometheus_scrapes_the_workers_of_compose_with_the_rules_that_are_mounted() -> None:
    config = yaml.safe_load((PARTS / "prometheus.yml").read_text(encoding="utf-8"))
    [job] = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"{name}:8083" for name in WORKERS]}]
    mounted = [mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"]]
    assert {f"/etc/prometheus/{name}" for name in config["rule_files"]} <= set(mounted)


def test_grafana_is_given_the_dashboard_and_its_source() -> None:
    [source] = yaml.safe_load((PARTS / "grafana-datasources.yml").read_text(encoding="utf-8"))["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [provider] = yaml.safe_load((PARTS / "grafana-dashboards.yml").read_text(encoding="utf-8"))["providers"]
    mounts = dict(mount.split(":")[:2] for mount in SERVICES["grafana"]["volumes"])
    assert mounts["./deploy/grafana"] == provider["options"]["path"]
