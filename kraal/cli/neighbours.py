"""Detection of other packages named `actors` or `web`, because these names are generic.

A package that precedes Kraal's in `sys.path` shadows Kraal's. A package that is installed to the same directory
overwrites Kraal's files without a warning from pip; uninstalling that package deletes these files.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kraal.core.errors import KraalError

NAMES: Final = ("actors", "web")
_MARKER: Final = "__kraal__ = True"
"""Line in the `__init__.py` of Kraal's packages."""


def check_neighbours() -> None:
    """Raise KraalError if Kraal's `actors` or `web` is missing, replaced or shadowed. Imports neither."""
    for name in NAMES:
        own_file = Path(__file__).parents[2] / name / "__init__.py"
        spec = find_spec(name)
        origin = spec.origin if spec else None
        if not own_file.exists():
            raise KraalError(
                f"Kraal's package '{name}' is missing: {own_file} does not exist; reinstall Kraal."
            )
        if origin is None or not own_file.samefile(origin):
            raise KraalError(
                f"Kraal's package '{name}' is shadowed by {origin}; install Kraal in its own environment."
            )
        if _MARKER not in own_file.read_text(encoding="utf-8", errors="replace"):
            from importlib.metadata import packages_distributions  # noqa: PLC0415 - slow to import

            distributions = sorted({*packages_distributions().get(name, [])} - {"kraal"})
            raise KraalError(
                f"Kraal's package '{name}' was replaced by {', '.join(distributions) or 'another package'}, "
                "which has a package of that name; install Kraal in its own environment."
            )
