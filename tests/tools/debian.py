"""Unpacks programs from Debian's packages into Kraal's cache directory for tests, without installing the packages.

`apt-get download` fetches the packages and verifies them against the checksums of the signed package lists. If the
system lacks these lists, they are first downloaded into a separate directory. The final directory is created by an
atomic rename, so it is always complete; a lock file avoids duplicate work of concurrent processes.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from kraal.jars.directories import cache_dir
from scripts.harness.processes import ScriptFailed

FETCH_TIMEOUT_S: Final = 300.0


def unpack(name: str, *packages: str, alternatives: str, with_dependencies: bool = False) -> Path:
    """Return the directory with the unpacked packages. If it does not exist, download and unpack the packages.

    Args:
        name: directory in the cache.
        packages: names of Debian's packages.
        alternatives: a sentence for the error message.
        with_dependencies: also unpack dependencies that the system lacks.

    Raises:
        ScriptFailed: with the cause and the alternatives.
    """
    target = cache_dir() / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f".{name}.lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_dir():
                _fetch(target, packages, with_dependencies=with_dependencies)
    except (OSError, subprocess.SubprocessError) as exc:
        cause = str(getattr(exc, "stderr", None) or exc).strip()
        raise ScriptFailed(
            f"Failed to download Debian's packages {', '.join(packages)}: {cause}. {alternatives}"
        ) from exc
    return target


def _fetch(target: Path, packages: tuple[str, ...], *, with_dependencies: bool) -> None:
    """Unpack packages into a new directory. Raises OSError, SubprocessError."""
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as name:
        scratch = Path(name)
        try:
            _download(scratch, packages, (), with_dependencies=with_dependencies)
        except subprocess.CalledProcessError:
            _download(scratch, packages, _fetch_lists(scratch), with_dependencies=with_dependencies)
        for package in sorted(scratch.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(scratch / "root")], scratch)
        (scratch / "root").replace(target)


def _fetch_lists(scratch: Path) -> tuple[str, ...]:
    """Fetch package lists into a directory, and return the options with which `apt-get` uses them."""
    (scratch / "lists" / "partial").mkdir(parents=True)
    directories = {
        "Dir::State::lists": scratch / "lists",
        "Dir::Cache": scratch,
        "APT::Sandbox::User": "root",
    }
    options = tuple(word for name, value in directories.items() for word in ("-o", f"{name}={value}"))
    _run(["apt-get", *options, "update"], scratch)
    return options


def _download(
    scratch: Path, packages: tuple[str, ...], options: tuple[str, ...], *, with_dependencies: bool
) -> None:
    names = packages
    if with_dependencies:
        command = ["apt-get", *options, "install", "--simulate", "--no-install-recommends", *packages]
        names = tuple(
            line.split()[1] for line in _run(command, scratch).splitlines() if line.startswith("Inst ")
        )
    _run(["apt-get", *options, "download", *names], scratch)


def _run(command: list[str], directory: Path) -> str:
    """Run a command in a directory, and return its output. Raises OSError, SubprocessError."""
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=True, timeout=FETCH_TIMEOUT_S,
        env=os.environ | {"LC_ALL": "C"},
    ).stdout  # fmt: skip
