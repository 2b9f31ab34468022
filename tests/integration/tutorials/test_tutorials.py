"""Tests that the commands of the tutorials, executed verbatim, produce the documented output."""

from __future__ import annotations

import pytest

from tests.integration.tutorials.conftest import Follow


@pytest.mark.ci
@pytest.mark.parametrize("page", ["first-pipeline.md", "own-connector.md"])
def test_commands_produce_the_documented_output(page: str, follow: Follow) -> None:
    follow(page)


@pytest.mark.slow
def test_connectors_migrate_from_a_java_worker_as_documented(follow: Follow) -> None:
    follow("from-connect.md")


@pytest.mark.slow
@pytest.mark.parametrize("page", ["cdc.md", "lakehouse.md"])
def test_table_changes_are_copied_as_documented(page: str, follow: Follow) -> None:
    follow(page, "postgresql")
