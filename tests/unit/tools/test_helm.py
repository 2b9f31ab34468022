"""Finding and building the helm of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.harness.processes import ScriptFailed
from tests.tools.helm.helm import MODULE, built, helm, locked_version

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
    """Put a `go` into the path that writes its arguments to a file, and no helm."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(GO, encoding="utf-8")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("RECORD", str(tmp_path / "record"))
    monkeypatch.setenv("FAILURE", "")
    return tmp_path / "record"


def test_is_built_once_from_locked_modules_and_nothing_else_stays(record: Path, tmp_path: Path) -> None:
    place = built(MODULE, tmp_path / "cache")
    assert built(MODULE, tmp_path / "cache") == place
    [arguments] = record.read_text(encoding="utf-8").splitlines()
    assert f"-C {MODULE} -mod=readonly" in arguments
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {place.name, ".lock"}
    assert place.name.startswith(f"helm-{locked_version((MODULE / 'go.mod').read_text('utf-8'))}-")


def test_other_checksums_are_another_program(record: Path, tmp_path: Path) -> None:
    module = tmp_path / "module"
    module.mkdir()
    for name in ("go.mod", "go.sum"):
        (module / name).write_bytes((MODULE / name).read_bytes())
    first = built(module, tmp_path / "cache")
    (module / "go.sum").write_text("", encoding="utf-8")
    assert built(module, tmp_path / "cache") != first
    assert len(record.read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.usefixtures("record")
def test_a_build_that_fails_is_told_with_gos_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILURE", "verifying module: checksum mismatch")
    with pytest.raises(
        ScriptFailed, match=r"cannot build helm 4\.\d+\.\d+: verifying module: checksum mismatch\. Install"
    ):
        built(MODULE, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_without_go_the_ways_out_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ScriptFailed, match=r"No helm found, and no Go to build one\. Install helm 3 or 4"):
        built(MODULE, tmp_path / "cache")


@pytest.mark.usefixtures("record")
def test_a_helm_that_is_named_or_installed_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed, named = tmp_path / "bin" / "helm", tmp_path / "other"
    for program in (installed, named):
        program.write_text("#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.delenv("KRAAL_HELM", raising=False)
    assert helm() == installed
    monkeypatch.setenv("KRAAL_HELM", str(named))
    assert helm() == named
    monkeypatch.setenv("KRAAL_HELM", str(tmp_path / "none"))
    with pytest.raises(ScriptFailed, match=r"Invalid KRAAL_HELM '.*none'; expected the path of a helm\."):
        helm()
