"""The tutorials do what they say: commands are entered word by word, and terminals show what the pages show."""

from __future__ import annotations

import pytest

from tests.integration.tutorials.conftest import Follow


@pytest.mark.ci
@pytest.mark.parametrize("page", ["first-pipeline.md", "own-connector.md"])
def test_a_reader_gets_what_the_page_shows(page: str, follow: Follow) -> None:
    follow(page)


@pytest.mark.slow
def test_connectors_move_from_a_java_worker_as_the_page_says(follow: Follow) -> None:
    follow("from-connect.md")


@pytest.mark.slow
def test_changes_of_a_table_are_copied_as_the_page_says(follow: Follow) -> None:
    follow("cdc.md", "postgresql")
