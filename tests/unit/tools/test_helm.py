"""Tests for finding or building the helm program that the tests use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.harness.processes import ScriptFailed
from tests.tools.helm.helm import MODULE, build_helm, helm, locked_version

GO = """\
#!/bin/sh
echo "$@" >>"$RECORD"
[ -z "$FAILURE" ] || { echo "go: downloading" >&2; echo "$FAILURE" >&2; exit 1; }
mkdir -p "$GOCACHE" "$GOMODCACHE"
while [ "$1" != -o ]; do shift; done
echo helm >"$2"
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a PATH without helm and with a `go` that writes its arguments to a file, and return the file."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO, encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("FAILURE", "")
    return tmp_path / "record"


def test_helm_is_built_once_from_locked_modules(record: Path, tmp_path: Path) -> None:
    binary = build_helm(MODULE, tmp_path / "cache")
    assert build_helm(MODULE, tmp_path / "cache") == binary
    [arguments] = record.read_text(encoding="utf-8").splitlines()
    assert f"-C {MODULE} -mod=readonly" in arguments
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {binary.name, ".lock"}
    assert binary.name.startswith(f"helm-{locked_version((MODULE / 'go.mod').read_text('utf-8'))}-")


def test_other_checksums_cause_another_build(record: Path, tmp_path: Path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    for name in ("go.mod", "go.sum"):
        (module / name).write_bytes((MODULE / name).read_bytes())
    first_binary = build_helm(module, tmp_path / "cache")
    (module / "go.sum").write_text("", encoding="utf-8")
    assert build_helm(module, tmp_path / "cache") != first_binary
    assert len(record.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.usefixtures("record")
def test_build_error_contains_the_last_line_of_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILURE", "verifying module: checksum mismatch")
    with pytest.raises(
        ScriptFailed, match=r"failed to build helm 4\.\d+\.\d+: verifying module: checksum mismatch\. Install"
    ):
        build_helm(MODULE, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_error_without_go_contains_the_alternatives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        ScriptFailed, match=r"helm was not found, and Go is not installed to build it\. Install helm 3 or 4"
    ):
        build_helm(MODULE, tmp_path / "cache")


@pytest.mark.usefixtures("record")
def test_configured_or_installed_helm_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_helm, configured_helm = tmp_path / "bin" / "helm", tmp_path / "other"
    for program in (installed_helm, configured_helm):
        program.write_text("#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.delenv("KRAAL_HELM", raising=False)
    assert helm() == installed_helm
    monkeypatch.setenv("KRAAL_HELM", str(configured_helm))
    assert helm() == configured_helm
    monkeypatch.setenv("KRAAL_HELM", str(tmp_path / "none"))
    with pytest.raises(ScriptFailed, match=r"Invalid KRAAL_HELM '.*none'; expected the path of helm\."):
        helm()
