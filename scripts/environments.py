"""Virtual environments of programs that must not share packages with Kraal, in its cache directory."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from kraal.jars.places import cache_dir

INSTALL_S: Final = 900.0


def locked_environment(name: str, lock: Path) -> Path:
    """Return the Python of an environment with the packages of `lock`, which are installed the first time.

    Another process that installs the same packages is waited for. Raises CalledProcessError and TimeoutExpired.
    """
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = cache_dir() / f"{name}-{digest}"
    python, done = home / "bin" / "python", home / "installed"
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True, timeout=INSTALL_S)
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
            subprocess.run([*pip, "--require-hashes", "-r", str(lock)], check=True, timeout=INSTALL_S)
            done.touch()
    return python
