"""Detects other packages named `actors` or `web`, which are generic names.

A neighbour that comes earlier in `sys.path` shadows the package of Kraal. One in the same directory replaces its files,
which pip does not mention, and its removal removes them.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kraal.core.errors import KraalError

NAMES: Final = ("actors", "web")
_MARK: Final = "__kraal__ = True"
"""Line in the `__init__.py` of Kraal's packages."""


def check_neighbours() -> None:
    """Raise KraalError if Kraal's `actors` or `web` is missing, replaced or shadowed. Imports neither."""
    for name in NAMES:
        ours = Path(__file__).parents[2] / name / "__init__.py"
        spec = find_spec(name)
        found = spec.origin if spec else None
        if not ours.exists():
            raise KraalError(f"Kraal's package '{name}' is missing: {ours} does not exist; reinstall Kraal.")
        if found is None or not ours.samefile(found):
            raise KraalError(
                f"Kraal's package '{name}' is shadowed by {found}; install Kraal in its own environment."
            )
        if _MARK not in ours.read_text(encoding="utf-8", errors="replace"):
            from importlib.metadata import packages_distributions  # noqa: PLC0415 - slow to import

            others = sorted({*packages_distributions().get(name, [])} - {"kraal"})
            raise KraalError(
                f"Kraal's package '{name}' was replaced by {', '.join(others) or 'another package'}, "
                "which has a package of that name; install Kraal in its own environment."
            )
