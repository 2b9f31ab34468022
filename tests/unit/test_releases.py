"""Tests that the version and the changelog are consistent."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from pathlib import Path

from packaging.version import Version

from kraal import __version__

CHANGELOG = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
HEADINGS = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
RELEASES = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})", heading) for heading in HEADINGS[1:]]


def test_changelog_starts_with_unreleased_changes() -> None:
    assert HEADINGS[0] == "[Unreleased]"


def test_releases_have_version_and_date_in_descending_order() -> None:
    assert RELEASES
    releases = [(Version(match[1]), date.fromisoformat(match[2])) for match in RELEASES if match]
    assert len(releases) == len(RELEASES)
    assert all(newer > older for newer, older in pairwise(version for version, _ in releases))
    assert all(newer >= older for newer, older in pairwise(day for _, day in releases))


def test_version_is_the_latest_release_or_a_development_version() -> None:
    latest, version = RELEASES[0], Version(__version__)
    assert latest is not None
    if version.is_devrelease:
        assert version > Version(latest[1])
        assert version.dev == 0
    else:
        assert str(version) == latest[1]
        unreleased = CHANGELOG.split("## [Unreleased]\n")[1].split("\n## ")[0]
        assert unreleased.strip() == ""


def test_changelog_entries_start_with_their_area() -> None:
    entries = re.findall(r"^- (.*)$", CHANGELOG, re.MULTILINE)
    assert len(entries) > 50
    assert [entry for entry in entries if not re.match(r"[\w -]+(, [\w -]+)*: ", entry)] == []
