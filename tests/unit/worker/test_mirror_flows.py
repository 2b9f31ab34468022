"""Tests for the flows and configs derived from MirrorMaker's properties file, compared with MirrorMaker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraal.config.properties_file import read_properties
from kraal.config.worker.distributed import parse_distributed
from kraal.core.errors import BadRequest
from kraal.plugins.registry import Registry
from kraal.worker.mirror_flows import (
    LOOPBACK,
    Flow,
    connector_configs,
    kraal_config,
    parse_flows,
    worker_config,
)
from tests.golden_files import current

GOLDEN = current("mirror_maker")
FILES = sorted(GOLDEN.glob("*.properties"))
A_TO_B = Flow("A", "B")


def read_file(name: str) -> dict[str, str]:
    return read_properties(GOLDEN / f"{name}.properties", "file")


def read_recording(name: str) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return recording


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_flows_and_configs_match_mirror_maker(name: str) -> None:
    raw, recorded_flows = read_file(name), read_recording(name)["flows"]
    flows = parse_flows(raw)
    assert [str(flow) for flow in flows] == sorted(recorded_flows)
    for flow in flows:
        assert worker_config(raw, flow) == recorded_flows[str(flow)]["worker"]
        assert connector_configs(raw, flow) == recorded_flows[str(flow)]["connectors"]


def test_connector_and_client_keys_are_passed_on() -> None:
    recording = read_recording("mm2")
    raw = dict.fromkeys([*recording["connector_keys"], *recording["client_keys"], "unknown"], "x")
    [config, *_] = connector_configs(raw, A_TO_B).values()
    assert set(config) & set(raw) == set(recording["connector_keys"])
    keys = set(worker_config(raw, A_TO_B))
    assert {key for key in recording["client_keys"] if f"producer.{key}" in keys and key in keys} == set(
        recording["client_keys"]
    )


def test_only_flows_into_the_target_clusters_are_selected() -> None:
    raw = read_file("mm2")
    assert parse_flows(raw, ["B", "A"]) == [A_TO_B, Flow("B", "A")]
    with pytest.raises(BadRequest, match=r"Unknown cluster 'D'; expected one or more of A, B, C"):
        parse_flows(raw, ["A", "D"])
    with pytest.raises(BadRequest, match="No source->target replication flows"):
        parse_flows(read_file("heartbeats_off"), ["source"])
    with pytest.raises(BadRequest, match='Missing required configuration "clusters"'):
        parse_flows({})


@pytest.mark.parametrize("text", ["A", "A->", "->B"])
def test_flow_requires_two_clusters(text: str) -> None:
    assert Flow.parse("A->B") == A_TO_B
    with pytest.raises(ValueError, match=text):
        Flow.parse(text)


def test_kraal_worker_accepts_the_config_without_warnings() -> None:
    raw = {
        "clusters": "A,B",
        "A.bootstrap.servers": "a:1",
        "B.bootstrap.servers": "b:1",
        "B.producer.acks": "all",
        "A->B.enabled": "true",
        "tasks.max": "3",
        "replication.policy.separator": "-",
        "offset.storage.replication.factor": "1",
        "plugins.jvm.options": "-Xmx512M",
        "kraal.data.dir": "/data",
    }
    config = parse_distributed(kraal_config(raw, A_TO_B, 0, ["/mirror"]), resolve=Registry.load().resolve)
    assert (config.bootstrap_servers, config.group_id, config.client_id) == ("b:1", "A-mm2", "A->B")
    assert (config.config_topic.name, config.offset_topic.name, config.status_topic.name) == (
        "mm2-configs.A.internal",
        "mm2-offsets.A.internal",
        "mm2-status.A.internal",
    )
    assert config.raw["plugin.path"] == "/mirror"
    assert config.raw["plugins.jvm.options"] == "-Xmx512M"
    assert str(config.data_dir) == "/data"
    assert config.warnings == ()


def test_each_worker_has_a_separate_port() -> None:
    raw = {
        "listeners": "http://east:8083,https://east:8443,http://east:0",
        "rest.advertised.port": "80",
        "dedicated.mode.enable.internal.rest": "true",
        "plugin.path": "/own",
    }
    config = kraal_config(raw, A_TO_B, 2, ["/mirror"])
    assert config["listeners"] == "http://east:8085,https://east:8445,http://east:0"
    assert config["rest.advertised.port"] == "82"
    assert config["plugin.path"] == "/mirror,/own"
    assert "plugin.discovery" not in config
    raw["dedicated.mode.enable.internal.rest"] = "false"
    assert kraal_config(raw, A_TO_B, 2, [])["listeners"] == LOOPBACK
