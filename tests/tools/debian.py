"""Programs of Debian's packages for tests: unpacked into Kraal's cache directory, nothing is installed.

`apt-get download` fetches the packages and verifies them against the checksums of the signed package lists. If the
system lacks these lists, they are fetched first, into a directory of their own. A complete directory is renamed into
its place: what is there is complete, and processes may fetch at the same time (a lock file only avoids duplicate work).
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from kraal.jars.places import cache_dir
from scripts.harness.processes import ScriptFailed

FETCH_S: Final = 300.0


def unpacked(name: str, *packages: str, ways: str, with_dependencies: bool = False) -> Path:
    """Return the root directory of unpacked packages; downloads them if they are not there.

    Args:
        name: directory in the cache.
        packages: names of Debian's packages.
        ways: what else helps if they cannot be fetched, as a sentence.
        with_dependencies: also unpack what they depend on and the system lacks.

    Raises:
        ScriptFailed: with one sentence and the ways out.
    """
    place = cache_dir() / name
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with (place.parent / f".{name}.lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not place.is_dir():
                _fetch(place, packages, with_dependencies=with_dependencies)
    except (OSError, subprocess.SubprocessError) as exc:
        why = str(getattr(exc, "stderr", None) or exc).strip()
        raise ScriptFailed(f"Cannot fetch Debian's packages {', '.join(packages)}: {why}. {ways}") from exc
    return place


def _fetch(place: Path, packages: tuple[str, ...], *, with_dependencies: bool) -> None:
    """Unpack packages into a new directory. Raises OSError, SubprocessError."""
    with tempfile.TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as name:
        scratch = Path(name)
        try:
            _download(scratch, packages, (), with_dependencies=with_dependencies)
        except subprocess.CalledProcessError:
            _download(scratch, packages, _own_lists(scratch), with_dependencies=with_dependencies)
        for package in sorted(scratch.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(scratch / "root")], scratch)
        (scratch / "root").replace(place)


def _own_lists(scratch: Path) -> tuple[str, ...]:
    """Fetch package lists into a directory; return the options of `apt-get` for it."""
    (scratch / "lists" / "partial").mkdir(parents=True)
    own = {"Dir::State::lists": scratch / "lists", "Dir::Cache": scratch, "APT::Sandbox::User": "root"}
    options = tuple(word for name, value in own.items() for word in ("-o", f"{name}={value}"))
    _run(["apt-get", *options, "update"], scratch)
    return options


def _download(
    scratch: Path, packages: tuple[str, ...], options: tuple[str, ...], *, with_dependencies: bool
) -> None:
    wanted = packages
    if with_dependencies:
        command = ["apt-get", *options, "install", "--simulate", "--no-install-recommends", *packages]
        wanted = tuple(
            line.split()[1] for line in _run(command, scratch).splitlines() if line.startswith("Inst ")
        )
    _run(["apt-get", *options, "download", *wanted], scratch)


def _run(command: list[str], directory: Path) -> str:
    """Run a command in a directory and return what it printed. Raises OSError, SubprocessError."""
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=True, timeout=FETCH_S,
        env=os.environ | {"LC_ALL": "C"},
    ).stdout  # fmt: skip
