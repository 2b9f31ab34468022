"""The Python environment of executors: the packages that docs/deploy/spark-cluster.md lists, without Kraal."""

from __future__ import annotations

import sys
from pathlib import Path

EXECUTOR_PACKAGES = ("pyarrow", "numpy", "regex", "typing_extensions")
"""The packages that executors require besides Spark."""


def bare_python(directory: Path) -> Path:
    """Create an environment that links to packages of the current environment; return its Python executable."""
    library = Path("lib") / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (directory / "bin").mkdir(parents=True)
    (directory / library).mkdir(parents=True)
    base = Path(sys.executable).resolve()
    (directory / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    python = directory / "bin" / "python"
    python.symlink_to(base)
    site_packages = Path(sys.prefix) / library
    for name in (f"{package}{part}" for package in EXECUTOR_PACKAGES for part in ("", ".py", ".libs")):
        if (site_packages / name).exists():
            (directory / library / name).symlink_to(site_packages / name)
    return python
