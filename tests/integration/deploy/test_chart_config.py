"""Tests that Kraal can read the worker properties and connector files that the Helm chart creates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kraal.client.manifests import read_manifests
from kraal.config.properties_file import read_properties
from kraal.config.worker.distributed import DistributedConfig, load_distributed
from kraal.java_plugins.services import resolve_worker_config
from tests.fakes.kafka.certificates import PASSWORD, make_authority
from tests.integration.deploy.chart import NAMESPACE, ROOT, VALUES_FILES, Pod, RenderedChart, render

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1800)]  # the first test may build helm

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="kraal" password="secret";'
PAGES = sorted((ROOT / "docs" / "deploy").glob("*.md"))
DOCUMENTED_VALUES = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(
        re.findall(r"```yaml\n# values.yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    )
]


@pytest.fixture(scope="module", params=VALUES_FILES, ids=lambda path: path.stem)
def chart(request: pytest.FixtureRequest) -> RenderedChart:
    """Return the chart rendered with one of the example files."""
    values: Path = request.param
    return render(values)


def load_config(chart: RenderedChart, directory: Path, number: int = 0) -> DistributedConfig:
    """Return the config that the worker of a pod reads. Raises ConfigInvalid."""
    pod = Pod(chart, number, directory)
    write_secrets(pod)
    return load_distributed(pod.start(), resolve_variables=resolve_worker_config)


def write_secrets(pod: Pod) -> None:
    """Write the Secrets to which the example files refer."""
    authority = make_authority()
    certificate = authority.issue_certificate("kraal", address="127.0.0.1")
    pod.write("/etc/kraal/users/users.properties", "ann=secret\n")
    pod.write("/etc/kraal/tls/password", PASSWORD)
    pod.write("/etc/kraal/tls/combined.pem", certificate.key_pem() + certificate.chain_pem)
    certificate.key_store(pod.local_path("/etc/kraal/tls/keystore.p12"))
    authority.trust_store(pod.local_path("/etc/kraal/tls/truststore.p12"))
    secrets = "/etc/kraal/secrets"
    pod.write(f"{secrets}/kraal-user/sasl.jaas.config", JAAS)
    pod.write(f"{secrets}/my-cluster-cluster-ca-cert/ca.password", PASSWORD)
    authority.trust_store(pod.local_path(f"{secrets}/my-cluster-cluster-ca-cert/ca.p12"))


@pytest.mark.parametrize("number", [0, 1])
def test_worker_accepts_the_rendered_properties(chart: RenderedChart, tmp_path: Path, number: int) -> None:
    worker_config = load_config(chart, tmp_path, number)
    headless = chart.one("Service", "-workers")["metadata"]["name"]
    host = re.escape(f"{chart.one('StatefulSet')['metadata']['name']}-{number}.{headless}.{NAMESPACE}.svc.")
    port = chart.worker["ports"][0]["containerPort"]
    assert re.fullmatch(
        rf"https?://{host}(cluster\.local|example\.internal):{port}/", worker_config.advertised_url
    )
    assert worker_config.data_dir == tmp_path / "var/lib/kraal/data"
    assert not [warning for warning in worker_config.warnings if "unknown" in warning.lower()]


def test_group_and_topic_names_derive_from_release_or_values(tmp_path: Path) -> None:
    default_config = load_config(render({}), tmp_path / "own")
    assert default_config.group_id == "r-kraal"
    topics = [
        default_config.config_topic.name,
        default_config.offset_topic.name,
        default_config.status_topic.name,
    ]
    assert topics == ["r-kraal-configs", "r-kraal-offsets", "r-kraal-status"]
    named_config = load_config(
        render({"groupId": "orders", "topics": {"status": "states"}}), tmp_path / "given"
    )
    topics = [named_config.config_topic.name, named_config.offset_topic.name, named_config.status_topic.name]
    assert topics == ["orders-configs", "orders-offsets", "states"]


def test_config_values_are_rendered_unchanged(tmp_path: Path) -> None:
    values = {
        "offset.flush.interval.ms": 1_000_000,
        "a.ratio": 0.5,
        "a.flag": True,
        "a.pattern": r"a\.b\\c \u0041",
        "a.blank": "  two blanks and a tab\t",
        "a.lines": "one\ntwo",
        "a.sign": "a=b:c#d!",
        "a.variable": "${dir:/etc/x:y}",
        "a.letter": "ß 漢",
        "header.converter": None,
    }
    file = Pod(render({"config": values}), 0, tmp_path).start()
    properties = read_properties(file, "worker configuration")
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    del texts["header.converter"]
    assert {key: properties.get(key) for key in texts} == texts
    assert "header.converter" not in properties


def test_default_key_can_be_replaced_or_removed(tmp_path: Path) -> None:
    values = {"config": {"spark.master": "local[7]", "spark.driver.memory": None}}
    properties = read_properties(Pod(render(values), 0, tmp_path).start(), "worker configuration")
    assert properties["spark.master"] == "local[7]"
    assert "spark.driver.memory" not in properties


def test_static_assignments_are_rendered_per_pod(tmp_path: Path) -> None:
    lists = {"0": {"connectors": ["a", "b"], "tasks": ["a-0"]}, "10": {"tasks": ["b-1"]}}
    chart = render({"replicas": 11, "assignments": lists})
    assignments = {
        number: load_config(chart, tmp_path / str(number), number).static_assignments for number in (0, 1, 10)
    }
    assert {
        number: [(connector, task) for connector, task in assignment or ()]
        for number, assignment in assignments.items()
    } == {
        0: [("a", -1), ("a", 0), ("b", -1)],
        1: [],
        10: [("b", 1)],
    }


def test_secrets_are_mounted_as_readable_directories(tmp_path: Path) -> None:
    chart = render({"secrets": ["one", "two.three"]})
    mounts = {mount["mountPath"]: mount["name"] for mount in chart.worker["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in chart.pods[0]["volumes"]}
    for name in ("one", "two.three"):
        assert volumes[mounts[f"/etc/kraal/secrets/{name}"]]["secret"] == {
            "secretName": name,
            "defaultMode": 0o440,
        }
    providers = read_properties(Pod(chart, 0, tmp_path).start(), "worker configuration")
    assert providers["config.providers.dir.param.allowed.paths"] == f"{tmp_path}/etc/kraal/secrets"


def test_connectors_are_rendered_as_files_for_apply(tmp_path: Path) -> None:
    first_config: dict[str, Any] = {
        "connector.class": "FileStreamSink",
        "tasks.max": 2,
        "file": "/a\\b",
        "flag": True,
    }
    values = {
        "connectors": {
            "one": {"config": first_config, "initialState": "STOPPED"},
            "two": {"config": {"connector.class": "T"}},
        }
    }
    for name, text in render(values).one("ConfigMap", "-connectors")["data"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    manifests = read_manifests([str(tmp_path)], [], recursive=False)
    assert manifests.errors == ()
    assert {
        connector.name: (connector.initial_state, connector.config) for connector in manifests.connectors
    } == {
        "one": ("STOPPED", {**first_config, "name": "one", "tasks.max": "2", "flag": "true"}),
        "two": (None, {"connector.class": "T", "name": "two"}),
    }


@pytest.mark.parametrize("text", DOCUMENTED_VALUES)
def test_documented_values_can_be_rendered(text: str, tmp_path: Path) -> None:
    chart = render(yaml.safe_load(text))
    chart.validate()
    load_config(chart, tmp_path)
