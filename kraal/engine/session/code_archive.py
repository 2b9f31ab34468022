"""The zip file that is sent to executors, with the Python code of Kraal and of installed plugins.

Functions are pickled by name, so executors must be able to import the functions' modules. In the `sys.path` of
executors, the archive precedes installed packages. Native modules and Kraal's dependencies must be installed on
executors.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from kraal.plugins.entries import GROUPS, installed

NAME: Final = "kraal-code.zip"
PACKAGE: Final = "kraal"
_NATIVE_SUFFIXES: Final = (".so", ".pyd", ".dylib")
_SOURCE_STAMP: Final = slice(8, 16)
"""Position of the source's modification time and size in the 16-byte header of a .pyc file."""
_UNCHECKED_HEADER: Final = (1).to_bytes(4, "little") + bytes(8)
"""The flags and the hash in the header of an unchecked hash-based .pyc file."""
_ENTRY_TIME: Final = (1980, 1, 1, 0, 0, 0)


def packages() -> frozenset[str]:
    """Return the names of the top-level packages to send: Kraal's and those of installed plugins."""
    entry_points = (entry_point for group in GROUPS for entry_point in installed(group))
    return frozenset({PACKAGE, *(point.value.partition(":")[0].partition(".")[0] for point in entry_points)})


def write_code(target: Path, names: Iterable[str]) -> list[str]:
    """Write the archive; return the packages that were skipped because they contain native modules."""
    skipped_packages = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(names):
            files = dict(_list_files(name))
            if any(path.suffix in _NATIVE_SUFFIXES for path in files.values()):
                skipped_packages.append(name)
                continue
            for entry, path in files.items():
                archive.writestr(zipfile.ZipInfo(entry, _ENTRY_TIME), path.read_bytes(), zipfile.ZIP_DEFLATED)
                if path.suffix == ".py" and (compiled := _read_compiled(path)) is not None:
                    archive.writestr(
                        zipfile.ZipInfo(f"{entry}c", _ENTRY_TIME), compiled, zipfile.ZIP_DEFLATED
                    )
    return skipped_packages


def _list_files(name: str) -> Iterator[tuple[str, Path]]:
    """Yield the entry name and the path of each file of a top-level module or package."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None:
            yield Path(spec.origin).name, Path(spec.origin)
        return
    for location in spec.submodule_search_locations:
        root = Path(location)
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{name}/{path.relative_to(root).as_posix()}", path


def _read_compiled(source: Path) -> bytes | None:
    """Return the module's .pyc file in unchecked hash-based form; None if the file is missing or outdated."""
    try:
        code = Path(importlib.util.cache_from_source(str(source))).read_bytes()
        status = source.stat()
    except OSError:
        return None
    stamp = (int(status.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + (
        status.st_size & 0xFFFFFFFF
    ).to_bytes(4, "little")
    if code[4:8] != bytes(4) or code[_SOURCE_STAMP] != stamp:
        return None
    return code[:4] + _UNCHECKED_HEADER + code[16:]
