"""Tests for `kraal doctor`: running checks, output and documentation."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraal.cli.main import main
from kraal.config.yaml_text import convert_scalar, read_yaml
from kraal.doctor.finding import IDS, Finding, Level
from kraal.doctor.run import run_checks

ROOT = Path(__file__).parents[3]
FINDINGS = [
    Finding("java.version", Level.OK, "Java runs"),
    Finding("broker.reachable", Level.ERROR, "no broker responds", "Start one."),
]


def test_failing_or_hanging_check_is_a_finding() -> None:
    ended = threading.Event()

    def failing_check() -> Iterable[Finding]:
        yield FINDINGS[0]
        raise ValueError("a mistake")

    def hanging_check() -> Iterable[Finding]:
        yield FINDINGS[1]
        ended.wait(20)

    findings = run_checks({"one": failing_check, "two": hanging_check}, limit_s=2)
    ended.set()
    assert [(finding.id, finding.what) for finding in findings] == [
        ("java.version", "Java runs"),
        ("doctor.check", "The check of one failed: ValueError('a mistake')"),
        ("broker.reachable", "no broker responds"),
        ("doctor.check", "The check of two took more than 2 s"),
    ]


@pytest.fixture
def fake_findings(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    findings = list(FINDINGS)
    monkeypatch.setattr("kraal.doctor.run.run_checks", lambda _: findings)
    return findings


@pytest.mark.usefixtures("fake_findings")
def test_findings_are_printed_with_fixes() -> None:
    result = CliRunner().invoke(main, ["doctor"])
    assert (result.exit_code, result.stdout.splitlines()) == (
        1,
        [
            "ok       java.version      Java runs",
            "error    broker.reachable  no broker responds",
            "                           Start one.",
            "1 error, 0 warnings",
        ],
    )


@pytest.mark.parametrize("output_format", ["json", "yaml"])
def test_findings_are_printed_as_data(fake_findings: list[Finding], output_format: str) -> None:
    del fake_findings[1]
    result = CliRunner().invoke(main, ["doctor", "-o", output_format])
    output = (
        json.loads(result.stdout) if output_format == "json" else read_yaml(result.stdout, convert_scalar)[0]
    )
    assert (result.exit_code, output) == (
        0,
        [{"id": "java.version", "area": "java", "level": "ok", "what": "Java runs", "fix": ""}],
    )


def test_unreadable_file_does_not_prevent_machine_checks(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["doctor", str(tmp_path / "none"), "-o", "json"])
    ids = [finding["id"] for finding in json.loads(result.stdout)]
    assert (result.exit_code, ids[0]) == (1, "config.valid")
    assert {"machine.disk", "java.version"} <= set(ids)


def test_documentation_lists_exactly_the_finding_ids() -> None:
    page = (ROOT / "docs" / "deploy" / "doctor.md").read_text("utf-8")
    assert dict(re.findall(r"^\| `([a-z]+\.[a-z]+)` \| (.*) \|$", page, re.MULTILINE)) == IDS


def test_code_uses_exactly_the_finding_ids() -> None:
    code = "".join(path.read_text("utf-8") for path in sorted((ROOT / "kraal" / "doctor").glob("*.py")))
    used_ids = set(re.findall(r'\b(?:Finding|passed)\(\s*"([a-z.]+)"', code))
    assert used_ids == IDS.keys()
