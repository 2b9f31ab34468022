"""Provides Helm for tests: the installed program, or a program that Go builds from source.

`go.mod` contains the version of Helm, and `go.sum` contains the checksums of all modules. Go downloads the modules
and builds Helm into Kraal's cache directory once. The downloaded modules and Go's caches are removed after the build.
An atomic rename prevents incomplete programs, and a lock file prevents concurrent builds.

`python -m tests.tools.helm.helm` finds or builds Helm and prints its path.
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

from kraal.jars.directories import cache_dir
from scripts.harness.processes import ScriptFailed

MODULE: Final = Path(__file__).parent
PACKAGE: Final = "helm.sh/helm/v4/cmd/helm"
VARIABLE: Final = "KRAAL_HELM"
BUILD_TIMEOUT_S: Final = 1800.0
"""A build takes five minutes on one core, and temporarily requires 1.8 GB of disk space."""
HELM_TIMEOUT_S: Final = 60.0
ALTERNATIVES: Final = f"Install helm 3 or 4, or set {VARIABLE} to its path, or install Go 1.26 to build helm."


def helm() -> Path:
    """Return the path of helm, which is built if it is not installed. Raises ScriptFailed."""
    if configured_path := os.environ.get(VARIABLE):
        if program := shutil.which(configured_path):
            return Path(program)
        raise ScriptFailed(f"Invalid {VARIABLE} '{configured_path}'; expected the path of helm.")
    if program := shutil.which("helm"):
        return Path(program)
    return build_helm(MODULE, cache_dir() / "helm")


def run_helm(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run helm with `text` as standard input, and without the user's repositories, plugins and clusters."""
    with tempfile.TemporaryDirectory(prefix="kraal-helm-") as home:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))
        }
        directories = {f"HELM_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(
            [str(helm()), *arguments],
            input=text, env=environment | directories, timeout=HELM_TIMEOUT_S,
            capture_output=True, text=True, check=False,
        )  # fmt: skip


def locked_version(go_mod: str) -> str:
    """Return the version of helm that a `go.mod` requires, such as `4.3.1`."""
    match = re.search(r"^\s*(?:require )?helm\.sh/helm/v4 v(\S+)", go_mod, re.MULTILINE)
    assert match is not None, "go.mod does not require helm"
    return match[1]


def build_helm(module: Path, directory: Path) -> Path:
    """Return the path of the helm version that a Go module requires. The program is built if it does not exist.

    Args:
        module: the directory of `go.mod` and `go.sum`.
        directory: the parent directory of the program.

    Raises ScriptFailed.
    """
    locks = [(module / name).read_bytes() for name in ("go.mod", "go.sum")]
    version, digest = locked_version(locks[0].decode()), hashlib.sha256(b"".join(locks)).hexdigest()
    binary = directory / f"helm-{version}-{digest[:8]}"
    if binary.is_file():
        return binary
    go = shutil.which("go")
    if go is None:
        raise ScriptFailed(f"helm was not found, and Go is not installed to build it. {ALTERNATIVES}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / ".lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not binary.is_file():
                click.echo(f"Building helm {version} for the tests", err=True)
                _build(go, module, binary)
    except (OSError, subprocess.SubprocessError) as exc:
        cause = str(getattr(exc, "stderr", None) or exc).strip().rpartition("\n")[2]
        raise ScriptFailed(
            f"helm was not found, and Go failed to build helm {version}: {cause}. {ALTERNATIVES}"
        ) from exc
    return binary


def _build(go: str, module: Path, binary: Path) -> None:
    """Build helm in a temporary directory that contains Go's caches. Raises OSError, SubprocessError."""
    for directory in binary.parent.glob(
        ".build-*"
    ):  # left by a killed process; the lock excludes concurrent builds
        shutil.rmtree(directory, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=binary.parent) as name:
        program = Path(name) / "helm"
        command = [go, "build", "-C", str(module), "-mod=readonly", "-modcacherw", "-trimpath"]
        command += ["-buildvcs=false", "-ldflags=-s -w", "-o", str(program), PACKAGE]
        subprocess.run(
            command,
            env=_environment(os.environ, Path(name)),
            capture_output=True,
            text=True,
            check=True,
            timeout=BUILD_TIMEOUT_S,
        )
        program.replace(binary)


def _environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the environment of a build that requires no C compiler and writes only to `scratch`."""
    caches = {"GOCACHE": str(scratch / "build"), "GOMODCACHE": str(scratch / "modules"), "GOWORK": "off"}
    return {**environment, **caches, "CGO_ENABLED": "0"}


if __name__ == "__main__":
    try:
        click.echo(helm())
    except ScriptFailed as failure:
        sys.exit(str(failure))
