"""Resolves wheels with pip, and unpacks them for a worker.

pip resolves against Kraal's own environment, whose packages are pinned because a worker cannot load two versions of a
package. Only wheels are accepted, because building from source would execute third-party code. The packages in pip's
report are downloaded by version and sha256. Locked wheels are passed to pip as files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

from kraal import __version__
from kraal.core.private_files import SHARED_DIRECTORY, make_directory, shared_opener
from kraal.jars.jars import compute_sha256
from kraal.plugin_lock.lock import LockedPlugin, PluginLockError

TIMEOUT_S = 900.0
_WHEEL = re.compile(r"([A-Za-z0-9_.]+)-([A-Za-z0-9_.!+]+)(-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl")


def canonical(name: str) -> str:
    """Return the normalized name of a project (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel_name(file: str) -> str:
    """Return `name==version` for a wheel's file name. Raises PluginLockError."""
    match = _WHEEL.fullmatch(file)
    if match is None:
        raise PluginLockError(f"Invalid wheel name '{file}'; expected NAME-VERSION-PYTHON-ABI-PLATFORM.whl.")
    return f"{canonical(match[1])}=={match[2]}"


def resolve_wheels(
    requirements: Sequence[str], scratch: Path, *, only: Path | None = None
) -> list[tuple[LockedPlugin, Path]]:
    """Return the wheels, with their paths, that are required in addition to Kraal's environment.

    Args:
        requirements: requirements and paths of wheels.
        scratch: an existing scratch directory for downloads.
        only: a directory of wheels to use instead of a package index.

    Raises PluginLockError with pip's reason.
    """
    if not requirements:
        return []
    report = scratch / "report.json"
    _write_constraints(scratch / "constraints.txt")
    options = ["--dry-run", "--report", str(report), "-c", str(scratch / "constraints.txt")]
    if only is not None:
        options += ["--no-index", "--find-links", str(only)]
    _run_pip(scratch, "install", *options, *requirements)
    items = json.loads(report.read_text("utf-8"))["install"]
    local_wheels = [Path(requirement) for requirement in requirements if requirement.endswith(".whl")]
    local_wheels += only.glob("*.whl") if only else ()
    paths_by_name = {wheel_name(path.name): path for path in local_wheels}
    pinned_requirements = []
    result = []
    for item in items:
        name = f"{canonical(item['metadata']['name'])}=={item['metadata']['version']}"
        if name in paths_by_name:
            path = paths_by_name[name]
            result.append((LockedPlugin(name, path.name, compute_sha256(path)), path))
        else:
            pinned_requirements.append(f"{name} --hash=sha256:{_get_sha256(item, name)}")
    return [*result, *_download(pinned_requirements, scratch)]


def _download(requirements: Sequence[str], scratch: Path) -> list[tuple[LockedPlugin, Path]]:
    if not requirements:
        return []
    wheel_directory = scratch / "wheels"
    wheel_directory.mkdir()
    (scratch / "fetch.txt").write_text("\n".join(requirements) + "\n", encoding="utf-8")
    _run_pip(
        scratch,
        "download",
        "--no-deps",
        "--require-hashes",
        "-r",
        str(scratch / "fetch.txt"),
        "-d",
        str(wheel_directory),
    )
    return [
        (LockedPlugin(wheel_name(wheel.name), wheel.name, compute_sha256(wheel)), wheel)
        for wheel in wheel_directory.glob("*.whl")
    ]


def _get_sha256(item: dict[str, Any], name: str) -> str:
    checksum = item["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
    if not checksum:
        raise PluginLockError(
            f"The package index has no sha256 for {name}; download the wheel and add the file."
        )
    return str(checksum)


def _write_constraints(path: Path) -> None:
    """Write constraints that pin the packages of Kraal's environment."""
    lines = {f"{canonical(package.name)}=={package.version}" for package in distributions() if package.name}
    path.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


def _run_pip(scratch: Path, *arguments: str) -> None:
    environment = dict(os.environ)
    try:
        distribution("kraal")
    except PackageNotFoundError:  # a checkout: prevent pip from looking up the name in a package index
        stub = scratch / "checkout" / f"kraal-{__version__}.dist-info"
        stub.mkdir(parents=True, exist_ok=True)
        (stub / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: kraal\nVersion: {__version__}\n", encoding="utf-8"
        )
        old_path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(stub.parent), old_path]))
    command = [sys.executable, "-m", "pip", arguments[0], "--no-input", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", *arguments[1:]]
    try:
        result = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise PluginLockError(
            f"pip timed out after {TIMEOUT_S:.0f} s; check that the package index is reachable.",
            hint="To use another index, set PIP_INDEX_URL.",
        ) from exc
    if result.returncode:
        raise PluginLockError(_summarize_error(result.stdout + result.stderr))


def _summarize_error(output: str) -> str:
    """Summarize pip's output in one sentence."""
    if "No module named pip" in output:
        return "pip is missing in Kraal's environment; install it with python -m ensurepip."
    errors = [line.partition("ERROR:")[2].strip() for line in output.splitlines() if "ERROR:" in line]
    conflicts = [
        line.strip() for line in output.splitlines() if re.match(r" +\S.*(depends on|requested) ", line)
    ]
    reason = "; ".join([*errors[:1], *conflicts]) or (output.strip().splitlines() or ["nothing"])[-1]
    return f"pip found no wheels that are compatible with Kraal's environment: {reason.rstrip('.')}."


def site_directory(directory: Path, wheels: Sequence[LockedPlugin]) -> Path:
    """Return the directory into which a set of wheels is unpacked; each set has its own directory."""
    digest = hashlib.sha256("\n".join(wheel.sha256 for wheel in sorted(wheels)).encode()).hexdigest()
    return directory / f"site-{digest[:16]}"


def unpack(files: Sequence[Path], site: Path) -> None:
    """Unpack wheels into the directory `site` atomically, unless it exists. Raises PluginLockError."""
    if site.exists():
        return
    try:
        with tempfile.TemporaryDirectory(prefix=".unpack-", dir=site.parent) as scratch:
            directory = Path(scratch) / "site"
            directory.mkdir(mode=0o755)
            for file in files:
                _unpack_one(file, directory)
            try:
                directory.rename(site)
            except OSError:
                if not site.exists():  # otherwise another worker has created it
                    raise
    except (OSError, zipfile.BadZipFile) as exc:
        raise PluginLockError(f"Cannot unpack the wheels into {site}: {exc}.") from exc


def _unpack_one(file: Path, directory: Path) -> None:
    """Unpack one wheel (PEP 427), except scripts, headers and data, which a worker does not use."""
    with zipfile.ZipFile(file) as wheel:
        for info in wheel.infolist():
            parts = Path(info.filename).parts
            if info.is_dir() or not parts:
                continue
            if ".." in parts or Path(info.filename).is_absolute():
                raise PluginLockError(
                    f"Invalid wheel {file}: the path {info.filename!r} is absolute or contains '..'."
                )
            if parts[0].endswith(".data"):
                if len(parts) < 3 or parts[1] not in ("purelib", "platlib"):  # noqa: PLR2004 - X.data/purelib/file
                    continue
                parts = parts[2:]
            target = directory.joinpath(*parts)
            make_directory(target.parent, SHARED_DIRECTORY)
            with wheel.open(info) as source, open(target, "wb", opener=shared_opener) as out:
                shutil.copyfileobj(source, out)
