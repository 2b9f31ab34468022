"""Tests that helm rejects invalid values of the chart with their path and the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from scripts.harness.processes import ScriptFailed
from tests.integration.deploy.chart import CHART, render
from tests.tools.helm.helm import run_helm

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1800)]  # the first test may build helm

CONNECTOR = {"connector.class": "A"}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"bootstrapServers": ""}, "/bootstrapServers"),
        ({"bootstrapServers": "kafka"}, "/bootstrapServers"),
        ({"bootstrapServers": "a:9092, b:9092"}, "/bootstrapServers"),
        ({"replicas": 0}, "/replicas"),
        ({"replicas": "two"}, "/replicas"),
        ({"replica": 3}, "'replica'"),
        ({"image": {"repository": ""}}, "/image/repository"),
        ({"image": {"digest": "sha256:12"}}, "/image/digest"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"fullnameOverride": "Kraal"}, "/fullnameOverride"),
        ({"topics": {"config": "a b"}}, "/topics/config"),
        ({"topics": {"configs": "a"}}, "'configs'"),
        ({"config": {"a": ["b"]}}, "/config/a"),
        ({"config": {"a b": "c"}}, "'a b' does not match pattern"),
        ({"config": {"a": 2**60}}, "/config/a"),
        ({"assignments": {"first": {"tasks": ["a-0"]}}}, "'first' does not match pattern"),
        ({"assignments": {"0": {}}}, "/assignments/0"),
        ({"assignments": {"0": {"tasks": ["a"]}}}, "/assignments/0/tasks/0"),
        ({"assignments": {"0": {"connectors": ["a,b"]}}}, "/assignments/0/connectors/0"),
        ({"secrets": ["A_b"]}, "/secrets/0"),
        ({"secrets": ["a", "a"]}, "/secrets"),
        ({"logFormat": "xml"}, "/logFormat"),
        ({"plugins": {"lock": "plugins.lock"}}, "/plugins/lock"),
        ({"plugins": {"lock": "/plugins"}}, "/plugins/lock"),
        ({"plugins": {"javaPath": ["/a,/b"]}}, "/plugins/javaPath/0"),
        ({"rest": {"port": 80}}, "/rest/port"),
        ({"rest": {"tls": {"type": "JKS"}}}, "/rest/tls/type"),
        ({"rest": {"tls": {"keystore": ""}}}, "/rest/tls/keystore"),
        ({"rest": {"auth": {"users": {"ann": "secret"}}}}, "'users'"),
        ({"service": {"type": "ExternalName"}}, "/service/type"),
        ({"connectors": {"a b": {"config": CONNECTOR}}}, "'a b' does not match pattern"),
        ({"connectors": {"a": CONNECTOR}}, "/connectors/a"),
        ({"connectors": {"a": {"config": {"topics": "b"}}}}, "connector.class"),
        (
            {"connectors": {"a": {"config": CONNECTOR, "initialState": "FAILED"}}},
            "/connectors/a/initialState",
        ),
        ({"applyJob": {"waitSeconds": -1}}, "/applyJob/waitSeconds"),
        ({"resources": {"limits": {"memory": "2 GB"}}}, "/resources/limits/memory"),
        ({"resources": {"memory": "2Gi"}}, "'memory'"),
        ({"terminationGracePeriodSeconds": 0}, "/terminationGracePeriodSeconds"),
        ({"probes": {"liveness": {"path": "/"}}}, "'path'"),
        ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "/podDisruptionBudget/maxUnavailable"),
        ({"networkPolicy": {"from": {}}}, "/networkPolicy/from"),
        ({"monitoring": {"podMonitor": {"interval": "fast"}}}, "/monitoring/podMonitor/interval"),
        ({"dataVolume": {"emptyDir": {}, "hostPath": {}}}, "/dataVolume"),
        ({"extraVolumeMounts": [{"name": "a"}]}, "/extraVolumeMounts/0"),
        ({"podLabels": {"a": 1}}, "/podLabels/a"),
    ],
    ids=str,
)
def test_malformed_values_are_rejected(values: Mapping[str, object], reason: str) -> None:
    with pytest.raises(ScriptFailed, match=re.escape(reason)) as raised:
        render(values)
    assert "values don't meet the specifications of the schema" in str(raised.value)


def test_missing_bootstrap_servers_are_rejected() -> None:
    result = run_helm("template", "r", str(CHART), "--kube-version=1.37.0")
    assert result.returncode
    assert "missing property 'bootstrapServers'" in result.stderr


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"config": {"listeners": "http://:1"}}, "config: listeners is a key that the chart sets"),
        ({"config": {"static.tasks": "a-0"}}, "config: static.tasks is a key that the chart sets"),
        ({"config": {"plugin.path": "/a"}}, "config: plugin.path is a key that the chart sets"),
        ({"assignments": {"2": {"tasks": ["a-0"]}}}, "assignments: there is no pod 2 with 2 replicas"),
        (
            {"plugins": {"lock": "/a.lock", "image": {"repository": "a"}, "volume": {"emptyDir": {}}}},
            "plugins: set image or volume, not both",
        ),
        ({"plugins": {"image": {"repository": "a"}}}, "plugins: set lock or javaPath"),
        ({"rest": {"auth": {"usersSecret": "a"}}}, "rest.auth: with usersSecret, set clientSecret"),
        ({"monitoring": {"prometheusRule": {"enabled": True}}}, "monitoring.prometheusRule: set rules"),
    ],
    ids=str,
)
def test_contradictory_values_are_rejected(values: Mapping[str, object], reason: str) -> None:
    with pytest.raises(ScriptFailed, match=re.escape(reason)):
        render(values)
