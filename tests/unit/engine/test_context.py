"""Tests for `has_transaction_per_batch`."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import TaskSpec
from kraal.engine.context import has_transaction_per_batch


@pytest.mark.parametrize(
    ("transactions", "config", "expected"),
    [
        (object(), {}, True),
        (object(), {"transaction.boundary": "POLL"}, True),
        (object(), {"transaction.boundary": " Interval "}, False),
        (None, {}, False),
    ],
)
def test_each_batch_has_a_transaction_unless_the_boundary_is_an_interval(
    transactions: object, config: dict[str, str], *, expected: bool
) -> None:
    spec = TaskSpec(
        task=TaskId(ConnectorName("c"), 0),
        task_config={},
        connector_config=config,
        transactions=cast("Any", transactions),
    )
    assert has_transaction_per_batch(spec) is expected
