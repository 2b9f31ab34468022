"""The Helm chart: real helm renders it, Kubernetes' schemas accept it, and a worker accepts its files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kraal.client.manifests import read_wants
from kraal.config.properties_file import read_properties
from kraal.config.worker.distributed import DistributedConfig, load_distributed
from kraal.java_plugins.services import resolved_worker
from scripts.harness.processes import ScriptFailed
from tests.fakes.kafka.certificates import PASSWORD, make_authority
from tests.integration.deploy.chart import (
    CHART,
    NAMESPACE,
    ROOT,
    VALUES,
    Object,
    Pod,
    Rendered,
    containers,
    render,
)
from tests.tools.helm.helm import run_helm

pytestmark = pytest.mark.ci

KUBERNETES = ("1.29", "1.37")
NEWER = {"plugins-volume"}
"""Example files with volumes of images, which Kubernetes has since 1.33."""
CUSTOM = {"PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, of which Kubernetes has no schema."""
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="kraal" password="secret";'
PAGES = sorted((ROOT / "docs" / "deploy").glob("*.md"))
BLOCKS = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(
        re.findall(r"```yaml\n# values.yaml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    )
]


@pytest.fixture(scope="module", params=VALUES, ids=lambda path: path.stem)
def rendered(request: pytest.FixtureRequest) -> Rendered:
    """Return the chart with one of the example files."""
    values: Path = request.param
    return render(values)


def config(rendered: Rendered, directory: Path, number: int = 0) -> DistributedConfig:
    """Return the config that a worker reads in a pod. Raises ConfigInvalid."""
    pod = Pod(rendered, number, directory)
    give_secrets(pod)
    return load_distributed(pod.start(), resolved=resolved_worker)


def give_secrets(pod: Pod) -> None:
    """Write what the Secrets of the example files contain."""
    authority = make_authority()
    me = authority.vouch_for("kraal", address="127.0.0.1")
    pod.write("/etc/kraal/users/users.properties", "ann=secret\n")
    pod.write("/etc/kraal/tls/password", PASSWORD)
    pod.write("/etc/kraal/tls/combined.pem", me.key_pem() + me.chain_pem)
    me.key_store(pod.here_path("/etc/kraal/tls/keystore.p12"))
    authority.trust_store(pod.here_path("/etc/kraal/tls/truststore.p12"))
    secrets = "/etc/kraal/secrets"
    pod.write(f"{secrets}/kraal-user/sasl.jaas.config", JAAS)
    pod.write(f"{secrets}/my-cluster-cluster-ca-cert/ca.password", PASSWORD)
    authority.trust_store(pod.here_path(f"{secrets}/my-cluster-cluster-ca-cert/ca.p12"))


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_helm_finds_nothing_to_complain_about(values: Path) -> None:
    done = run_helm("lint", "--strict", str(CHART), "--values", str(values))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize(
    ("values", "version"),
    [
        pytest.param(values, version, id=f"{values.stem}-{version}")
        for values in VALUES
        for version in KUBERNETES
        if version == KUBERNETES[-1] or values.stem not in NEWER
    ],
)
def test_every_object_fits_the_schema_of_kubernetes(values: Path, version: str) -> None:
    objects = render(values, f"--kube-version={version}.0").objects
    assert {each["kind"] for each in objects} >= {"StatefulSet", "Service", "ConfigMap"}
    for each in objects:
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, version, strict=True)


def test_an_older_kubernetes_is_refused() -> None:
    with pytest.raises(ScriptFailed, match=r"chart requires kubeVersion: >=1\.29"):
        render({}, "--kube-version=1.28.9")


def test_pods_meet_the_restricted_profile(rendered: Rendered) -> None:
    for pod in rendered.pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"]
            assert container["resources"]["limits"]["memory"]


def test_every_volume_is_there_and_used(rendered: Rendered) -> None:
    for pod in rendered.pods:
        there = [each["name"] for each in pod["volumes"]]
        used = {mount["name"] for each in containers(pod) for mount in each["volumeMounts"]}
        assert sorted(there) == sorted(used)
        assert len(set(there)) == len(there)


def test_a_worker_can_only_write_where_it_has_to(rendered: Rendered) -> None:
    writable = {each["mountPath"] for each in rendered.worker["volumeMounts"] if not each.get("readOnly")}
    assert writable - {"/mnt/files"} == {"/var/lib/kraal", "/tmp"}  # noqa: S108 - of a pod


def test_services_and_budget_choose_the_workers_and_no_job(rendered: Rendered) -> None:
    worker = rendered.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    others = [each["spec"]["template"]["metadata"]["labels"] for each in rendered.of("Job")]
    selectors = [each["spec"]["selector"] for each in rendered.of("Service")]
    selectors += [each["spec"]["selector"]["matchLabels"] for each in rendered.of("PodDisruptionBudget")]
    assert len(selectors) == 3
    for selector in selectors:
        assert selector.items() <= worker.items()
        assert not [each for each in others if selector.items() <= each.items()]


@pytest.mark.parametrize("number", [0, 1])
def test_a_worker_accepts_the_file_of_its_pod(rendered: Rendered, tmp_path: Path, number: int) -> None:
    found = config(rendered, tmp_path, number)
    headless = rendered.one("Service", "-workers")["metadata"]["name"]
    host = re.escape(
        f"{rendered.one('StatefulSet')['metadata']['name']}-{number}.{headless}.{NAMESPACE}.svc."
    )
    port = rendered.worker["ports"][0]["containerPort"]
    assert re.fullmatch(rf"https?://{host}(cluster\.local|example\.internal):{port}/", found.advertised_url)
    assert found.data_dir == tmp_path / "var/lib/kraal/data"
    assert not [each for each in found.warnings if "unknown" in each.lower()]


def test_names_of_group_and_topics_come_from_the_release_or_from_values(tmp_path: Path) -> None:
    own = config(render({}), tmp_path / "own")
    assert own.group_id == "r-kraal"
    topics = [own.config_topic.name, own.offset_topic.name, own.status_topic.name]
    assert topics == ["r-kraal-configs", "r-kraal-offsets", "r-kraal-status"]
    given = config(render({"groupId": "orders", "topics": {"status": "states"}}), tmp_path / "given")
    topics = [given.config_topic.name, given.offset_topic.name, given.status_topic.name]
    assert topics == ["orders-configs", "orders-offsets", "states"]


def test_values_of_keys_arrive_as_they_are_written(tmp_path: Path) -> None:
    wanted = {
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
    file = Pod(render({"config": wanted}), 0, tmp_path).start()
    found = read_properties(file, "worker configuration")
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in wanted.items()}
    del texts["header.converter"]
    assert {key: found.get(key) for key in texts} == texts
    assert "header.converter" not in found


def test_a_default_key_is_replaced_or_removed(tmp_path: Path) -> None:
    values = {"config": {"spark.master": "local[7]", "spark.driver.memory": None}}
    found = read_properties(Pod(render(values), 0, tmp_path).start(), "worker configuration")
    assert found["spark.master"] == "local[7]"
    assert "spark.driver.memory" not in found


def test_static_assignments_are_those_of_the_pod(tmp_path: Path) -> None:
    lists = {"0": {"connectors": ["a", "b"], "tasks": ["a-0"]}, "10": {"tasks": ["b-1"]}}
    rendered = render({"replicas": 11, "assignments": lists})
    found = {number: config(rendered, tmp_path / str(number), number).static for number in (0, 1, 10)}
    assert {number: [(job.connector, job.task) for job in jobs or ()] for number, jobs in found.items()} == {
        0: [("a", -1), ("a", 0), ("b", -1)],
        1: [],
        10: [("b", 1)],
    }


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({}, 68),
        ({"config": {"task.shutdown.graceful.timeout.ms": 30_500}}, 94),
        ({"config": {"task.shutdown.graceful.timeout.ms": "10000"}, "preStopSeconds": 0}, 70),
        ({"terminationGracePeriodSeconds": 300}, 300),
    ],
)
def test_a_pod_has_the_time_that_its_worker_needs_to_stop(values: Mapping[str, object], wanted: int) -> None:
    pod = render(values).one("StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == wanted


def test_only_other_files_are_a_new_pod() -> None:
    def template(values: Mapping[str, object]) -> Object:
        found: Object = render(values).one("StatefulSet")["spec"]["template"]
        return found

    assert template({}) == template({"service": {"type": "NodePort"}, "replicas": 9})
    assert template({}) != template({"config": {"batch.linger.ms": 0}})
    assert template({}) != template({"assignments": {"0": {"tasks": ["a-0"]}}})


def test_a_secret_is_a_directory_that_the_worker_may_read(tmp_path: Path) -> None:
    rendered = render({"secrets": ["one", "two.three"]})
    mounts = {each["mountPath"]: each["name"] for each in rendered.worker["volumeMounts"]}
    volumes = {each["name"]: each for each in rendered.pods[0]["volumes"]}
    for name in ("one", "two.three"):
        assert volumes[mounts[f"/etc/kraal/secrets/{name}"]]["secret"] == {
            "secretName": name,
            "defaultMode": 0o440,
        }
    providers = read_properties(Pod(rendered, 0, tmp_path).start(), "worker configuration")
    assert providers["config.providers.dir.param.allowed.paths"] == f"{tmp_path}/etc/kraal/secrets"


def test_plugins_are_copied_before_the_worker_starts() -> None:
    rendered = render(
        {"plugins": {"lock": "/opt/kraal-plugins/p.lock", "image": {"repository": "p", "path": "/a/"}}}
    )
    copy = rendered.pods[0]["initContainers"][1]
    assert (copy["image"], copy["command"]) == ("p:latest", ["cp", "-R", "/a/.", "/opt/kraal-plugins/"])
    assert copy["volumeMounts"] == [{"name": "plugins", "mountPath": "/opt/kraal-plugins"}]
    assert "kraal.plugins.lock=/opt/kraal-plugins/p.lock\n" in rendered.files["worker.properties"]


def test_network_policies_admit_the_release_and_the_peers_named() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    rule = {"ports": [{"port": 9092}]}
    policy = {"enabled": True, "from": [peer], "restrictEgress": True, "egress": [rule]}
    rendered = render({"networkPolicy": policy, "connectors": {"a": {"config": {"connector.class": "A"}}}})
    spec = rendered.one("NetworkPolicy")["spec"]
    [ingress] = spec["ingress"]
    own, other = ingress["from"]
    job = rendered.one("Job")["spec"]["template"]["metadata"]["labels"]
    assert own["podSelector"]["matchLabels"].items() <= job.items()
    assert other == peer
    assert ingress["ports"] == [{"port": "rest", "protocol": "TCP"}]
    assert spec["egress"][-1] == rule
    assert {each["port"] for each in spec["egress"][1]["ports"]} == {53}
    open_policy = render({"networkPolicy": {"enabled": True}}).one("NetworkPolicy")["spec"]
    assert (open_policy["policyTypes"], "egress" in open_policy) == (["Ingress"], False)


def test_prometheus_scrapes_with_the_login_and_the_authority_of_the_workers() -> None:
    secured = render(ROOT / "deploy/chart/values/secured.yaml")
    [endpoint] = secured.one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint == {
        "port": "rest",
        "path": "/metrics",
        "interval": "30s",
        "scheme": "https",
        "tlsConfig": {
            "ca": {"secret": {"name": "kraal-tls", "key": "ca.crt"}},
            "serverName": f"r-kraal.{NAMESPACE}.svc.cluster.local",
        },
        "basicAuth": {
            "username": {"name": "kraal-client", "key": "username"},
            "password": {"name": "kraal-client", "key": "password"},
        },
    }
    selector = secured.one("PodMonitor")["spec"]["selector"]["matchLabels"]
    assert selector.items() <= secured.one("StatefulSet")["spec"]["template"]["metadata"]["labels"].items()


def test_rules_of_prometheus_are_taken_from_a_file_unchanged(tmp_path: Path) -> None:
    group = {
        "name": "g",
        "rules": [{"alert": "A", "expr": "up == 0", "annotations": {"summary": "{{ $labels.pod }}"}}],
    }
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [group]}), encoding="utf-8")
    settings = [
        "--set=monitoring.prometheusRule.enabled=true",
        f"--set-file=monitoring.prometheusRule.rules={file}",
    ]
    assert render({}, *settings).one("PrometheusRule")["spec"] == {"groups": [group]}


def test_connectors_are_files_for_apply(tmp_path: Path) -> None:
    one: dict[str, Any] = {"connector.class": "FileStreamSink", "tasks.max": 2, "file": "/a\\b", "flag": True}
    values = {
        "connectors": {
            "one": {"config": one, "initialState": "STOPPED"},
            "two": {"config": {"connector.class": "T"}},
        }
    }
    for name, text in render(values).one("ConfigMap", "-connectors")["data"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_wants([str(tmp_path)], [], recursive=False)
    assert found.faults == ()
    assert {each.name: (each.initial_state, each.config) for each in found.wanted} == {
        "one": ("STOPPED", {**one, "name": "one", "tasks.max": "2", "flag": "true"}),
        "two": (None, {"connector.class": "T", "name": "two"}),
    }


def test_the_job_is_a_hook_that_waits_and_deletes_as_asked() -> None:
    connectors = {"a": {"config": {"connector.class": "A"}}}
    job = render({"connectors": connectors}).one("Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments == ["apply", "--file=/etc/kraal/connectors", "--wait", "--timeout=120"]
    other = render({"connectors": connectors, "applyJob": {"prune": True, "waitSeconds": 0}}).one("Job")
    assert other["spec"]["template"]["spec"]["containers"][0]["args"] == [*arguments[:2], "--prune"]
    assert render({}).of("Job") == []


@pytest.mark.parametrize("text", BLOCKS)
def test_values_in_the_documentation_render(text: str, tmp_path: Path) -> None:
    rendered = render(yaml.safe_load(text))
    for each in rendered.objects:
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, KUBERNETES[-1], strict=True)
    config(rendered, tmp_path)


def test_packing_needs_nothing_else(tmp_path: Path) -> None:
    done = run_helm("package", str(CHART), "--destination", str(tmp_path))
    assert done.returncode == 0, done.stderr
    [archive] = tmp_path.glob("kraal-*.tgz")
    shown = run_helm("show", "values", str(archive)).stdout
    assert shown.strip() == (CHART / "values.yaml").read_text(encoding="utf-8").strip()
