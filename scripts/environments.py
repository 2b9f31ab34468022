"""Virtual environments in Kraal's cache directory, for programs that must not share Kraal's packages."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from kraal.jars.directories import cache_dir

INSTALL_TIMEOUT_S: Final = 900.0


def locked_environment(name: str, lock: Path) -> Path:
    """Return the Python executable of an environment with the packages of `lock`; create the environment on first use.

    Waits if another process is creating the same environment. Raises CalledProcessError and TimeoutExpired.
    """
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = cache_dir() / f"{name}-{digest}"
    python, marker = home / "bin" / "python", home / "installed"
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        if not marker.exists():
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=INSTALL_TIMEOUT_S)
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
            subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True, timeout=INSTALL_TIMEOUT_S)
            marker.touch()
    return python
