"""Tests for the Helm chart, which is rendered by helm and validated against the Kubernetes schemas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from scripts.harness.processes import ScriptFailed
from tests.integration.deploy.chart import (
    CHART,
    KUBERNETES_VERSIONS,
    NAMESPACE,
    ROOT,
    VALUES_FILES,
    Object,
    RenderedChart,
    containers,
    render,
)
from tests.tools.helm.helm import run_helm

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1800)]  # the first test may build helm

IMAGE_VOLUME_EXAMPLES = {"plugins-volume"}
"""Example files with image volumes, which require Kubernetes 1.33."""


@pytest.fixture(scope="module", params=VALUES_FILES, ids=lambda path: path.stem)
def chart(request: pytest.FixtureRequest) -> RenderedChart:
    """Return the chart rendered with one of the example files."""
    values: Path = request.param
    return render(values)


@pytest.mark.parametrize("values", VALUES_FILES, ids=lambda path: path.stem)
def test_helm_lint_reports_no_problems(values: Path) -> None:
    version = f"--kube-version={KUBERNETES_VERSIONS[-1]}.0"
    result = run_helm("lint", "--strict", str(CHART), version, f"--values={values}")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "[WARNING]" not in result.stdout


@pytest.mark.parametrize(
    ("values", "version"),
    [
        pytest.param(values, version, id=f"{values.stem}-{version}")
        for values in VALUES_FILES
        for version in KUBERNETES_VERSIONS
        if version == KUBERNETES_VERSIONS[-1] or values.stem not in IMAGE_VOLUME_EXAMPLES
    ],
)
def test_every_object_matches_the_kubernetes_schema(values: Path, version: str) -> None:
    chart = render(values, kubernetes=version)
    assert {manifest["kind"] for manifest in chart.objects} >= {"StatefulSet", "Service", "ConfigMap"}
    chart.validate(version)


def test_older_kubernetes_versions_are_rejected() -> None:
    with pytest.raises(ScriptFailed, match=r"chart requires kubeVersion: >=1\.29"):
        render({}, kubernetes="1.28")


def test_pods_meet_the_restricted_profile(chart: RenderedChart) -> None:
    for pod in chart.pods:
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


def test_every_volume_exists_and_is_mounted(chart: RenderedChart) -> None:
    for pod in chart.pods:
        volumes = [volume["name"] for volume in pod["volumes"]]
        mounted_names = {
            mount["name"] for container in containers(pod) for mount in container["volumeMounts"]
        }
        assert sorted(volumes) == sorted(mounted_names)
        assert len(set(volumes)) == len(volumes)


def test_workers_have_minimal_write_access(chart: RenderedChart) -> None:
    writable = {mount["mountPath"] for mount in chart.worker["volumeMounts"] if not mount.get("readOnly")}
    assert writable - {"/mnt/files"} == {"/var/lib/kraal", "/tmp"}  # noqa: S108 - of a pod


def test_services_and_disruption_budget_select_only_workers(chart: RenderedChart) -> None:
    worker = chart.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    job_labels = [
        manifest["spec"]["template"]["metadata"]["labels"] for manifest in chart.objects_of_kind("Job")
    ]
    selectors = [manifest["spec"]["selector"] for manifest in chart.objects_of_kind("Service")]
    selectors += [
        manifest["spec"]["selector"]["matchLabels"]
        for manifest in chart.objects_of_kind("PodDisruptionBudget")
    ]
    assert len(selectors) == 3
    for selector in selectors:
        assert selector.items() <= worker.items()
        assert not [labels for labels in job_labels if selector.items() <= labels.items()]


@pytest.mark.parametrize(
    ("values", "expected_s"),
    [
        ({}, 68),
        ({"config": {"task.shutdown.graceful.timeout.ms": 30_500}}, 94),
        ({"config": {"task.shutdown.graceful.timeout.ms": "10000"}, "preStopSeconds": 0}, 70),
        ({"terminationGracePeriodSeconds": 300}, 300),
    ],
)
def test_termination_grace_period_is_calculated_from_timeouts_unless_set(
    values: Mapping[str, object], expected_s: int
) -> None:
    pod = render(values).one("StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == expected_s


def test_pods_are_replaced_only_for_changed_files() -> None:
    def pod_template(values: Mapping[str, object]) -> Object:
        template: Object = render(values).one("StatefulSet")["spec"]["template"]
        return template

    assert pod_template({}) == pod_template({"service": {"type": "NodePort"}, "replicas": 9})
    assert pod_template({}) != pod_template({"config": {"batch.linger.ms": 0}})
    assert pod_template({}) != pod_template({"assignments": {"0": {"tasks": ["a-0"]}}})


def test_plugins_are_copied_before_the_worker_starts() -> None:
    chart = render(
        {"plugins": {"lock": "/opt/kraal-plugins/p.lock", "image": {"repository": "p", "path": "/a/"}}}
    )
    init_container = chart.pods[0]["initContainers"][1]
    assert (init_container["image"], init_container["command"]) == (
        "p:latest",
        ["cp", "-R", "/a/.", "/opt/kraal-plugins/"],
    )
    assert init_container["volumeMounts"] == [{"name": "plugins", "mountPath": "/opt/kraal-plugins"}]
    assert "kraal.plugins.lock=/opt/kraal-plugins/p.lock\n" in chart.files["worker.properties"]


def test_workers_are_resolvable_before_they_are_ready(chart: RenderedChart) -> None:
    headless = chart.one("Service", "-workers")
    assert headless["spec"]["clusterIP"] == "None"
    assert headless["spec"]["publishNotReadyAddresses"] is True
    assert chart.one("StatefulSet")["spec"]["serviceName"] == headless["metadata"]["name"]


def test_service_account_token_is_mounted_only_if_requested() -> None:
    for values, is_mounted in (({}, False), ({"serviceAccount": {"automountToken": True}}, True)):
        chart = render({**values, "connectors": {"a": {"config": {"connector.class": "A"}}}})
        worker, job = chart.pods
        assert chart.one("ServiceAccount")["automountServiceAccountToken"] is is_mounted
        assert (worker["automountServiceAccountToken"], job["automountServiceAccountToken"]) == (
            is_mounted,
            False,
        )
        assert worker["serviceAccountName"] == chart.one("ServiceAccount")["metadata"]["name"]
    without_account = render({"serviceAccount": {"create": False, "name": "mine"}})
    assert (
        without_account.objects_of_kind("ServiceAccount"),
        without_account.pods[0]["serviceAccountName"],
    ) == ([], "mine")


@pytest.mark.parametrize(
    ("tls", "scheme"), [({}, "HTTP"), ({"secretName": "tls"}, "HTTPS")], ids=["http", "https"]
)
def test_probes_use_the_health_endpoint_without_passwords(tls: Mapping[str, str], scheme: str) -> None:
    worker = render({"rest": {"tls": tls}, "probes": {"startup": {"failureThreshold": 9}}}).worker
    probes = [worker[f"{name}Probe"] for name in ("startup", "readiness", "liveness")]
    assert [probe["httpGet"] for probe in probes] == [
        {"path": "/health", "port": "rest", "scheme": scheme}
    ] * 3
    assert [probe["failureThreshold"] for probe in probes] == [9, 3, 3]


def test_nodes_can_be_drained_one_worker_at_a_time() -> None:
    spec = render({}).one("PodDisruptionBudget")["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert render({"podDisruptionBudget": {"enabled": False}}).objects_of_kind("PodDisruptionBudget") == []


def test_workers_spread_over_zones_and_nodes_by_default() -> None:
    spec = render({}).one("StatefulSet")["spec"]
    keys = [
        default_constraint["topologyKey"]
        for default_constraint in spec["template"]["spec"]["topologySpreadConstraints"]
    ]
    assert keys == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]
    for default_constraint in spec["template"]["spec"]["topologySpreadConstraints"]:
        assert default_constraint["labelSelector"] == spec["selector"]
        assert default_constraint["whenUnsatisfiable"] == "ScheduleAnyway"
    constraint = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    assert render({"topologySpreadConstraints": [constraint]}).pods[0]["topologySpreadConstraints"] == [
        constraint
    ]


def test_openshift_values_set_no_user_id() -> None:
    context = render(ROOT / "deploy/chart/values/openshift.yaml").pods[0]["securityContext"]
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & context.keys()


def test_network_policies_admit_the_release_and_configured_peers() -> None:
    peer = {"namespaceSelector": {"matchLabels": {"a": "b"}}}
    rule = {"ports": [{"port": 9092}]}
    policy = {"enabled": True, "from": [peer], "restrictEgress": True, "egress": [rule]}
    chart = render({"networkPolicy": policy, "connectors": {"a": {"config": {"connector.class": "A"}}}})
    spec = chart.one("NetworkPolicy")["spec"]
    [ingress] = spec["ingress"]
    release_peer, configured_peer = ingress["from"]
    job = chart.one("Job")["spec"]["template"]["metadata"]["labels"]
    assert release_peer["podSelector"]["matchLabels"].items() <= job.items()
    assert configured_peer == peer
    assert ingress["ports"] == [{"port": "rest", "protocol": "TCP"}]
    assert spec["egress"][-1] == rule
    assert {port["port"] for port in spec["egress"][1]["ports"]} == {53}
    open_policy = render({"networkPolicy": {"enabled": True}}).one("NetworkPolicy")["spec"]
    assert (open_policy["policyTypes"], "egress" in open_policy) == (["Ingress"], False)


def test_prometheus_scrapes_with_credentials_and_ca_of_the_workers() -> None:
    secured_chart = render(ROOT / "deploy/chart/values/secured.yaml")
    [endpoint] = secured_chart.one("PodMonitor")["spec"]["podMetricsEndpoints"]
    assert endpoint == {
        "port": "rest",
        "path": "/metrics",
        "interval": "30s",
        "relabelings": [
            {"targetLabel": "job", "replacement": "kraal-orders"},
            {"sourceLabels": ["__meta_kubernetes_pod_name"], "targetLabel": "instance"},
        ],
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
    selector = secured_chart.one("PodMonitor")["spec"]["selector"]["matchLabels"]
    labels = secured_chart.one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert selector.items() <= labels.items()


def test_prometheus_rules_equal_the_file(tmp_path: Path) -> None:
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


def test_connector_job_is_a_hook_with_wait_and_delete_options() -> None:
    connectors = {"a": {"config": {"connector.class": "A"}}}
    job = render({"connectors": connectors}).one("Job")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    arguments = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments == ["apply", "--file=/etc/kraal/connectors", "--wait", "--timeout=120"]
    pruning_job = render({"connectors": connectors, "applyJob": {"prune": True, "waitSeconds": 0}}).one("Job")
    assert pruning_job["spec"]["template"]["spec"]["containers"][0]["args"] == [*arguments[:2], "--prune"]
    assert render({}).objects_of_kind("Job") == []


def test_packaged_chart_is_self_contained(tmp_path: Path) -> None:
    result = run_helm("package", str(CHART), "--destination", str(tmp_path))
    assert result.returncode == 0, result.stderr
    [archive] = tmp_path.glob("kraal-*.tgz")
    packaged_values = run_helm("show", "values", str(archive)).stdout
    assert packaged_values.strip() == (CHART / "values.yaml").read_text(encoding="utf-8").strip()
