from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kraal.jars import ivy
from kraal.jars.errors import JarsUnavailable
from kraal.jars.ivy import Coordinates


def write_program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def retrieve_with(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    java = write_program(tmp_path / "java", script)
    monkeypatch.setattr(ivy, "find_java", lambda: java)
    monkeypatch.setattr(ivy, "_find_ivy_jar", lambda: tmp_path / "ivy.jar")
    progress_reports: list[tuple[int, int]] = []
    coordinates = [Coordinates("org", "name", "1")]
    ivy.retrieve(
        coordinates, tmp_path, transitive=False, progress=lambda *counts: progress_reports.append(counts)
    )
    return progress_reports


@pytest.mark.parametrize(
    ("output", "message", "missing_modules"),
    [
        pytest.param(
            "module not found: org#name;1\nHost repository not found. url=x",
            "Failed to download org:name:1: cannot reach the Maven repository; check the network connection.",
            (),
            id="no network",
        ),
        pytest.param(
            "module not found: org#name;1\n:: org#name;1: not found",
            "Failed to download org:name:1: not found in the Maven repository.",
            ("org:name:1",),
            id="unknown module",
        ),
        pytest.param("", "Failed to download the jars: Ivy reported: nothing", (), id="no output"),
    ],
)
def test_failure_is_described_in_one_sentence(
    output: str,
    message: str,
    missing_modules: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(JarsUnavailable) as error:
        retrieve_with(f"cat <<'end'\n{output}\nend\nexit 1", tmp_path, monkeypatch)
    assert (str(error.value), error.value.missing) == (message, missing_modules)


def test_progress_counts_resolved_and_downloaded_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress_reports = retrieve_with(
        r"printf '\tfound a\n\tfound b\n\t[SUCCESSFUL ] a\n'", tmp_path, monkeypatch
    )
    assert progress_reports[-1] == (2, 1)


def test_stalled_ivy_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "STALL_TIMEOUT_S", 0.1)
    with pytest.raises(JarsUnavailable, match="no progress"):
        retrieve_with("exec sleep 60", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("text", "file", "artifact"),
    [
        ("org:name:1", "org__name__1.jar", None),
        ("org:name:zip:1", "org__name__1.zip", 'ext="zip"/>'),
        ("org:name:tar.gz:plugin:1", "org__name__1-plugin.tar.gz", 'ext="tar.gz" m:classifier="plugin"/>'),
    ],
)
def test_only_files_other_than_jars_are_requested_by_extension(
    text: str, file: str, artifact: str | None
) -> None:
    coordinates = Coordinates.parse(text)
    assert (str(coordinates), coordinates.file_name) == (text, file)
    description = ivy.describe_modules([coordinates], transitive=True)
    assert (artifact or "</dependency>") in description
    assert ('transitive="true"' in description, "<artifact" in description) == (
        artifact is None,
        artifact is not None,
    )
