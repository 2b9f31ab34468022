"""Check that the files of the installed distribution are unchanged.

The names of Kraal's packages `actors` and `web` are generic. Another distribution that contains a file with the same
path silently replaces Kraal's file. pip and uv record the files of each distribution, with their digests, in RECORD.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, PackagePath, distribution, distributions
from pathlib import Path

from kraal.core.printable import join_first
from kraal.doctor.finding import Finding, Level, passed

_MAX_SHOWN = 3
_REINSTALL_FIX = "Reinstall Kraal in a separate environment: pip install --force-reinstall --no-deps kraal"


def check_installed() -> Iterator[Finding]:
    """Compare all files of the distribution `kraal` with its RECORD."""
    try:
        kraal = distribution("kraal")
    except PackageNotFoundError:
        yield Finding("install.files", Level.SKIPPED, "Kraal runs from its source without being installed")
        return
    yield from check_files(kraal, distributions())


def check_files(kraal: Distribution, other_distributions: Iterable[Distribution]) -> Iterator[Finding]:
    """Check the files of a distribution; owners of replaced files are searched in `other_distributions`."""
    recorded_files = [file for file in kraal.files or () if file.hash is not None and _is_code(file)]
    missing_files = [str(file) for file in recorded_files if not _installed_path(file).is_file()]
    changed_files = [
        str(file) for file in recorded_files if str(file) not in missing_files and not _is_as_recorded(file)
    ]
    if missing_files:
        yield Finding(
            "install.files",
            Level.ERROR,
            f"Files of Kraal are missing: {join_first(missing_files, _MAX_SHOWN)}",
            _REINSTALL_FIX,
        )
    owners = _find_owners(changed_files, other_distributions)
    if owners:
        replaced_files = [file for file in changed_files if file in owners]
        packages = ", ".join(sorted({*owners.values()}))
        what = f"{packages} has replaced files of Kraal: {join_first(replaced_files, _MAX_SHOWN)}"
        yield Finding("install.files", Level.ERROR, what, _REINSTALL_FIX)
    modified_files = [file for file in changed_files if file not in owners]
    if modified_files:
        what = f"Files of Kraal differ from its RECORD: {join_first(modified_files, _MAX_SHOWN)}"
        yield Finding("install.files", Level.WARNING, what, _REINSTALL_FIX)
    if not recorded_files:
        yield Finding(
            "install.files",
            Level.SKIPPED,
            "Kraal's code is not in its distribution: the installation is editable",
        )
    elif not missing_files and not changed_files:
        yield passed("install.files", f"Kraal's {len(recorded_files):,} files match its RECORD")


def _is_code(file: PackagePath) -> bool:
    """Return whether a file is part of a package; installers change scripts and metadata."""
    return len(file.parts) > 1 and file.parts[0] in ("actors", "kraal", "web")


def _is_as_recorded(file: PackagePath) -> bool:
    if file.hash is None:
        return True
    digest = hashlib.new(file.hash.mode, _installed_path(file).read_bytes(), usedforsecurity=False).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.hash.value


def _installed_path(file: PackagePath) -> Path:
    return Path(str(file.locate()))


def _find_owners(files: Collection[str], distributions: Iterable[Distribution]) -> dict[str, str]:
    """Return the names of the distributions that claim changed files of Kraal, by file."""
    if not files:
        return {}
    changed_files = {*files}
    return {
        str(file): other.name
        for other in distributions
        if other.name != "kraal"
        for file in other.files or ()
        if str(file) in changed_files
    }
