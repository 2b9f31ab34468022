"""Queries registries for newest versions, with pip, Ivy and npm as configured on the machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from kraal.jars import ivy
from kraal.jars.ivy import Coordinates
from scripts.outdated_run.report import is_final

_PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")
_TIMEOUT_S: Final = 1_800.0
_MAX_ATTEMPTS: Final = 4
"""Maximum number of versions of a module that are resolved; previews are skipped."""


def newest_installed() -> dict[tuple[str, str], str]:
    """Return the newest versions of outdated packages in this environment.

    Raises CalledProcessError, TimeoutExpired.
    """
    output = _run([*_PIP, "list", "--outdated", "--format", "json"])
    return {
        ("python", canonicalize_name(package["name"])): package["latest_version"]
        for package in json.loads(output)
    }


def newest_python(names: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return the newest versions of packages that are not installed. Raises CalledProcessError, TimeoutExpired."""
    newest = {}
    for name in names:
        first_line = _run([*_PIP, "index", "versions", name]).split("\n", 1)[0]
        if version := re.search(r"\(([^)]+)\)", first_line):
            newest["python", name] = version[1]
    return newest


def newest_javascript(names: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return the newest versions of npm packages.

    Raises CalledProcessError, TimeoutExpired, and OSError if npm is not installed.
    """
    return {("javascript", name): _run(["npm", "view", name, "version"]).strip() for name in names}


def newest_maven(modules: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return the newest final versions of modules `org:name`, without downloading their jars.

    Modules without a final version are omitted. Raises JarsUnavailable, JavaMissing, TimeoutExpired.
    """
    revisions = dict.fromkeys(modules, "latest.release")
    newest: dict[tuple[str, str], str] = {}
    for _ in range(_MAX_ATTEMPTS):
        if not revisions:
            break
        versions = _resolve(revisions)
        newest |= {("maven", name): version for name, version in versions.items() if is_final(version)}
        revisions = {name: f"(,{version}[" for name, version in versions.items() if not is_final(version)}
    return newest


def _resolve(revisions: Mapping[str, str]) -> dict[str, str]:
    """Return the version of each module that Ivy resolves for a dynamic revision."""
    with tempfile.TemporaryDirectory(prefix="kraal-outdated-") as scratch:
        ivy_file = Path(scratch) / "ivy.xml"
        modules = [Coordinates.parse(f"{name}:{revision}") for name, revision in revisions.items()]
        ivy_file.write_text(ivy.describe_modules(modules, transitive=False), encoding="utf-8")
        command = ivy.ivy_command(Path(scratch), ivy_file)
        # No artifact has the type `none`, so nothing is downloaded. The exit code is 1 if any module is not available.
        completed = subprocess.run(
            [*command, "-types", "none"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    matches = re.findall(r"^\tfound (\S+)#(\S+);(\S+) in ", completed.stdout, re.MULTILINE)
    return {f"{org}:{name}": version for org, name, version in matches}


def _run(command: list[str]) -> str:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True, stdin=subprocess.DEVNULL
    ).stdout
