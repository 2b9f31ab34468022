"""Tests for `kraal ls`."""

from __future__ import annotations

import json

from tests.fakes.workers.connect import Connect
from tests.unit.client.commands.conftest import HOST
from tests.unit.client.conftest import Kraal


def test_ls_lists_connectors(kraal: Kraal, populated_worker: Connect) -> None:
    assert kraal.out("ls") == (
        "NAME      TYPE     STATE     TASKS           WORKER\n"
        f"archive   sink     RUNNING   1/1             {HOST}\n"
        f"orders    source   RUNNING   1/2, 1 failed   {HOST}\n"
    )
    assert kraal.out("ls", "-q") == "archive\norders\n"
    assert populated_worker.requests("POST", "PUT", "PATCH", "DELETE") == []


def test_ls_without_connectors_succeeds_with_a_message(kraal: Kraal) -> None:
    result = kraal("ls")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No connectors.\n")
    assert json.loads(kraal.out("ls", "-o", "json")) == []
