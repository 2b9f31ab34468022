"""Helm for tests: the one that is installed, or else one that Go builds from its sources.

`go.mod` names the version, `go.sum` has the checksum of every module. Go downloads them once and builds the program
into Kraal's cache directory; its sources and its own caches are removed afterwards. A complete program is renamed into
its place, and processes may build at the same time (a lock file only avoids duplicate work).

`python -m tests.tools.helm.helm` finds or builds it and prints its path.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from kraal.jars.places import cache_dir
from scripts.harness.processes import ScriptFailed

MODULE: Final = Path(__file__).parent
PACKAGE: Final = "helm.sh/helm/v4/cmd/helm"
VARIABLE: Final = "KRAAL_HELM"
BUILD_S: Final = 1800.0
"""It takes five minutes of a core, and 1.8 GB of the disk meanwhile."""
HELM_S: Final = 60.0
WAYS: Final = f"Install helm 3 or 4, or set {VARIABLE} to a helm, or install Go 1.26 to build one."


def helm() -> Path:
    """Return the path of helm; may build it. Raises ScriptFailed with one sentence and the ways out."""
    if named := os.environ.get(VARIABLE):
        if program := shutil.which(named):
            return Path(program)
        raise ScriptFailed(f"Invalid {VARIABLE} '{named}'; expected the path of a helm.")
    if program := shutil.which("helm"):
        return Path(program)
    return built(MODULE, cache_dir() / "helm")


def run_helm(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run helm with a text on its standard input, and without the user's repositories, plugins and clusters."""
    with tempfile.TemporaryDirectory(prefix="kraal-helm-") as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
        places = {f"HELM_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [str(helm()), *arguments],
            input=text, env=kept | places, capture_output=True, text=True, check=False, timeout=HELM_S,
        )  # fmt: skip


def locked_version(go_mod: str) -> str:
    """Return the version of helm that a `go.mod` requires, such as `4.3.1`."""
    found = re.search(r"^\s*(?:require )?helm\.sh/helm/v4 v(\S+)", go_mod, re.MULTILINE)
    assert found is not None, "go.mod requires no helm"
    return found[1]


def built(module: Path, directory: Path) -> Path:
    """Return the helm that a module locks, in `directory`, after building it if it is missing. Raises ScriptFailed."""
    locks = [(module / name).read_bytes() for name in ("go.mod", "go.sum")]
    version, digest = locked_version(locks[0].decode()), hashlib.sha256(b"".join(locks)).hexdigest()
    place = directory / f"helm-{version}-{digest[:8]}"
    if place.is_file():
        return place
    go = shutil.which("go")
    if go is None:
        raise ScriptFailed(f"No helm found, and no Go to build one. {WAYS}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / ".lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_file():
                click.echo(f"Building helm {version} for the tests", err=True)
                _build(go, module, place)
    except (OSError, subprocess.SubprocessError) as exc:
        why = str(getattr(exc, "stderr", None) or exc).strip().rpartition("\n")[2]
        raise ScriptFailed(f"No helm found, and Go cannot build helm {version}: {why}. {WAYS}") from exc
    return place


def _build(go: str, module: Path, place: Path) -> None:
    """Build helm in a directory of its own, with Go's caches in it. Raises OSError, SubprocessError."""
    for left_over in place.parent.glob(".build-*"):  # of a killed process; no other process is building
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=place.parent) as name:
        made = Path(name) / "helm"
        command = [go, "build", "-C", str(module), "-mod=readonly", "-modcacherw", "-trimpath"]
        command += ["-buildvcs=false", "-ldflags=-s -w", "-o", str(made), PACKAGE]
        subprocess.run(
            command,
            env=_environment(os.environ, Path(name)),
            capture_output=True,
            text=True,
            check=True,
            timeout=BUILD_S,
        )
        made.replace(place)


def _environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the variables for a build that needs no C compiler and leaves nothing outside `scratch`."""
    places = {"GOCACHE": str(scratch / "build"), "GOMODCACHE": str(scratch / "modules"), "GOWORK": "off"}
    return {**environment, **places, "CGO_ENABLED": "0"}


if __name__ == "__main__":
    try:
        click.echo(helm())
    except ScriptFailed as failure:
        sys.exit(str(failure))
