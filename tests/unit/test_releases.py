"""The version and the changelog are consistent."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from pathlib import Path

from packaging.version import Version

from kraal import __version__

TEXT = (Path(__file__).parents[2] / "CHANGELOG.md").read_text("utf-8")
HEADINGS = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
RELEASED = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})", each) for each in HEADINGS[1:]]


def test_changelog_starts_with_unreleased_changes() -> None:
    assert HEADINGS[0] == "[Unreleased]"


def test_releases_have_version_and_date_in_descending_order() -> None:
    assert RELEASED
    releases = [(Version(each[1]), date.fromisoformat(each[2])) for each in RELEASED if each]
    assert len(releases) == len(RELEASED)
    assert all(newer > older for newer, older in pairwise(version for version, _ in releases))
    assert all(newer >= older for newer, older in pairwise(day for _, day in releases))


def test_version_is_the_latest_release_or_a_development_version() -> None:
    latest, version = RELEASED[0], Version(__version__)
    assert latest is not None
    if version.is_devrelease:
        assert version > Version(latest[1])
        assert version.dev == 0
    else:
        assert str(version) == latest[1]
        unreleased = TEXT.split("## [Unreleased]\n")[1].split("\n## ")[0]
        assert unreleased.strip() == ""


def test_changes_name_their_area() -> None:
    entries = re.findall(r"^- (.*)$", TEXT, re.MULTILINE)
    assert len(entries) > 50
    assert [each for each in entries if not re.match(r"[\w -]+(, [\w -]+)*: ", each)] == []
