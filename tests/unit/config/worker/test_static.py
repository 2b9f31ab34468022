"""Tests for `static.connectors` and `static.tasks` (KIP-987): allowed values and their effect."""

from __future__ import annotations

import pytest

from kraal.config.worker.distributed import DistributedConfig, parse_distributed
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import ConnectorName
from kraal.protocol.group import ConnectorOrTask
from tests.fakes.workers.worker_config import MINIMAL_CONFIG

C1, A, A_1 = (ConnectorName(name) for name in ("c1", "a", "a-1"))


def parse_static(connectors: str | None, tasks: str | None, protocol: str = "static") -> DistributedConfig:
    lists = {"static.connectors": connectors, "static.tasks": tasks}
    raw = {name: text for name, text in lists.items() if text is not None}
    return parse_distributed({**MINIMAL_CONFIG, "connect.protocol": protocol, **raw})


@pytest.mark.parametrize(
    ("connectors", "tasks", "expected"),
    [
        pytest.param("c1", None, (ConnectorOrTask(C1),), id="connector only"),
        pytest.param(None, "c1-0", (ConnectorOrTask(C1, 0),), id="task only"),
        pytest.param(
            "c1, c1",
            "c1-0 ,c1-0,c1-00",
            (ConnectorOrTask(C1), ConnectorOrTask(C1, 0)),
            id="duplicates count once",
        ),
        pytest.param(
            "a-1",
            "a-1",
            (ConnectorOrTask(A, 1), ConnectorOrTask(A_1)),
            id="same text for a connector and a task",
        ),
        pytest.param(None, "a-1-2", (ConnectorOrTask(A_1, 2),), id="a task's id is split at its last hyphen"),
    ],
)
def test_static_assignments_are_parsed_into_connectors_and_tasks(
    connectors: str | None, tasks: str | None, expected: tuple[ConnectorOrTask, ...]
) -> None:
    config = parse_static(connectors, tasks)
    assert config.static_assignments == expected
    assert config.warnings == ()


def test_empty_static_lists_cause_warning() -> None:
    config = parse_static(None, None)
    assert (config.static_assignments, config.warnings) == (None, ())
    config = parse_static("", " ")
    assert config.static_assignments is None
    assert config.warnings == (
        "No entries in static.connectors and static.tasks: the leader assigns this worker's connectors and tasks.",
    )


TASK_ERROR = (
    "is not the id of a task; each entry must be a connector's name, a hyphen and the task's number, as in "
)


@pytest.mark.parametrize(
    ("name", "value", "formatted_value", "reason"),
    [
        ("static.connectors", "a,,b", "[a, , b]", "an entry is blank; each must be the name of a connector"),
        ("static.tasks", "c1-0,c1", "[c1-0, c1]", f"'c1' {TASK_ERROR}my-connector-0"),
        ("static.tasks", "-0", "[-0]", f"'-0' {TASK_ERROR}my-connector-0"),
        ("static.tasks", "c1-0,", "[c1-0, ]", f"'' {TASK_ERROR}my-connector-0"),
        ("static.tasks", "c1-2147483648", "[c1-2147483648]", f"'c1-2147483648' {TASK_ERROR}my-connector-0"),
        ("static.tasks", "c1-\u0663", "[c1-\u0663]", f"'c1-\u0663' {TASK_ERROR}my-connector-0"),
    ],
)
@pytest.mark.parametrize("protocol", ["static", "eager"])
def test_static_assignments_are_validated_with_any_protocol(
    name: str, value: str, formatted_value: str, reason: str, protocol: str
) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        parse_distributed({**MINIMAL_CONFIG, "connect.protocol": protocol, name: value})
    assert raised.value.errors == (f"Invalid value {formatted_value} for configuration {name}: {reason}",)


def test_static_assignments_without_static_protocol_cause_warning() -> None:
    config = parse_static("c1", "c1-0", "sessioned")
    assert config.warnings == tuple(
        f"{name} is ignored: connect.protocol=sessioned, and only static supports static assignments."
        for name in ("static.connectors", "static.tasks")
    )
