"""Tests for the check that files of the installed distribution were not replaced by other packages."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import Distribution, PackageNotFoundError, PathDistribution
from pathlib import Path

import pytest

from kraal.doctor import installed
from kraal.doctor.finding import Finding, Level
from kraal.doctor.installed import check_files, check_installed

FILES = {"web/app.py": "ours", "web/__init__.py": "", "kraal/core/errors.py": "class KraalError: ...\n"}


def install(site: Path, name: str, files: dict[str, str]) -> Distribution:
    """Write the files and the metadata of a package as pip does; return its distribution."""
    lines = []
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}")
    dist_info = site / f"{name}-1.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (dist_info / "RECORD").write_text(
        "\n".join([*lines, f"{dist_info.name}/RECORD,,", f"../../bin/{name},sha256=x,1"])
    )
    return PathDistribution(dist_info)


def single_finding(findings: list[Finding]) -> tuple[Level, str]:
    [finding] = findings
    assert finding.id == "install.files"
    assert bool(finding.fix) == (finding.level in (Level.WARNING, Level.ERROR))
    return finding.level, finding.what


def test_replaced_file_names_the_other_package(tmp_path: Path) -> None:
    kraal = install(tmp_path, "kraal", FILES)
    other_package = install(tmp_path, "web-py", {"web/app.py": "theirs", "web/http.py": ""})
    level, what = single_finding([*check_files(kraal, [kraal, other_package])])
    assert (level, what) == (Level.ERROR, "web-py has replaced files of Kraal: web/app.py")


def test_edited_file_is_a_warning_and_missing_file_an_error(tmp_path: Path) -> None:
    kraal = install(tmp_path, "kraal", FILES)
    (tmp_path / "web/app.py").write_text("mine")
    assert single_finding([*check_files(kraal, [kraal])]) == (
        Level.WARNING,
        "Files of Kraal differ from its RECORD: web/app.py",
    )
    (tmp_path / "web/app.py").unlink()
    assert single_finding([*check_files(kraal, [kraal])]) == (
        Level.ERROR,
        "Files of Kraal are missing: web/app.py",
    )


def test_uninstalled_source_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_not_found(name: str) -> Distribution:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installed, "distribution", raise_not_found)
    assert single_finding([*check_installed()]) == (
        Level.SKIPPED,
        "Kraal runs from its source without being installed",
    )
