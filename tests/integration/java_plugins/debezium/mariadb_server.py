"""A real MariaDB server: the one that is installed, or else the programs of Debian's packages.

`apt-get download` fetches the packages, and those that they need and the system lacks, into Kraal's cache directory;
nothing is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraal.broker.broker import free_port
from kraal.jars.places import cache_dir
from scripts.harness.processes import ScriptFailed, wait_until

PACKAGES: Final = ("mariadb-server-core", "mariadb-client-core")
SYSTEM: Final = Path("/usr")
USER: Final = "kraal"
PASSWORD: Final = "not the usual one"  # noqa: S105 - of a server that ends with its caller
UP_S: Final = 60.0
FETCH_S: Final = 300.0
SETTINGS: Final = (
    "--bind-address=127.0.0.1",
    "--innodb-buffer-pool-size=16M",
    "--innodb-flush-log-at-trx-commit=0",
    "--log-bin=changes",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--server-id=1",
)


@dataclass(frozen=True)
class MariaDB:
    """A server that runs, with a binary log that may be read."""

    process: subprocess.Popen[bytes]
    programs: Path
    environment: Mapping[str, str]
    port: int

    def ask(self, sql: str) -> list[str]:
        """Run statements in the database `test`; return the rows, with tabs between values. Raises ScriptFailed."""
        done = self._client(sql, "test")
        if done.returncode:
            raise ScriptFailed(f"MariaDB refused {sql}: {done.stderr.strip()}")
        return done.stdout.splitlines()

    def is_up(self) -> bool:
        """Tell whether it answers."""
        return self._client("SELECT 1", "mysql").returncode == 0

    def _client(self, sql: str, database: str) -> subprocess.CompletedProcess[str]:
        address = ("--protocol=tcp", "-h", "127.0.0.1", "-P", str(self.port), "-u", USER, f"-p{PASSWORD}")
        return subprocess.run(
            [str(self.programs / "bin" / "mariadb"), "--no-defaults", "-N", "-B", *address, database, "-e", sql],
            env=dict(self.environment), capture_output=True, encoding="utf-8", check=False, timeout=UP_S,
        )  # fmt: skip


@contextmanager
def mariadb() -> Iterator[MariaDB]:
    """Run a server on loopback in a new directory, which is removed with it. Raises ScriptFailed."""
    programs, environment = _programs()
    home = Path(tempfile.mkdtemp(prefix="kraal-mariadb-"))
    try:
        common = ["--no-defaults", f"--basedir={programs}", f"--datadir={home / 'data'}"]
        common += ["--user=root"] if os.geteuid() == 0 else []
        first = home / "first.sql"
        first.write_text(
            f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; CREATE DATABASE test;"
            f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;".replace(";", ";\n"),
            encoding="ascii",
        )
        made = subprocess.run(
            [str(programs / "bin" / "mariadb-install-db"), *common, "--skip-test-db"],
            env=environment, capture_output=True, text=True, check=False, cwd=home, timeout=UP_S,
        )  # fmt: skip
        if made.returncode:
            raise ScriptFailed(f"MariaDB could not create its files in {home}: {made.stdout}{made.stderr}")
        with _running(programs, environment, home, [*common, f"--init-file={first}"]) as server:
            yield server
    finally:
        shutil.rmtree(home)


@contextmanager
def _running(
    programs: Path, environment: Mapping[str, str], home: Path, common: list[str]
) -> Iterator[MariaDB]:
    port, log = free_port(), home / "log"
    more = [f"--port={port}", f"--socket={home / 'socket'}", f"--pid-file={home / 'pid'}", *SETTINGS]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(programs / "sbin" / "mariadbd"), *common, *more],
            env=dict(environment), stdout=out, stderr=subprocess.STDOUT, cwd=home, start_new_session=True,
        )  # fmt: skip
    server = MariaDB(process, programs, environment, port)
    try:
        wait_until("MariaDB answered", lambda: process.poll() is not None or server.is_up(), timeout_s=UP_S)
        if process.poll() is not None:
            raise ScriptFailed(f"MariaDB ended while starting: {log.read_text(errors='replace')}")
        yield server
    finally:
        process.kill()
        process.wait(UP_S)


def _programs() -> tuple[Path, dict[str, str]]:
    """Return the directory above `bin` and `sbin`, and the environment of the programs; may download them."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    if all((SYSTEM / each).exists() for each in ("sbin/mariadbd", "bin/mariadb-install-db", "bin/mariadb")):
        return SYSTEM, environment
    place = cache_dir() / "mariadb"
    if not place.is_dir():
        _fetch(place)
    libraries = {path.parent for path in place.rglob("*.so*")}
    return place / "usr", environment | {"LD_LIBRARY_PATH": os.pathsep.join(map(str, sorted(libraries)))}


def _fetch(place: Path) -> None:
    """Unpack Debian's packages into a new directory. Raises ScriptFailed."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".mariadb-", dir=place.parent) as name:
        scratch = Path(name)
        plan = _apt("install", "--simulate", "--no-install-recommends", *PACKAGES, place=scratch)
        lacking = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
        _apt("download", *lacking, place=scratch)
        for package in sorted(scratch.glob("*.deb")):
            _done(["dpkg-deb", "-x", str(package), str(scratch / "root")], scratch)
        (scratch / "root").replace(place)


def _apt(*arguments: str, place: Path) -> str:
    return _done(["apt-get", *arguments], place)


def _done(command: list[str], place: Path) -> str:
    """Run a command in a directory and return what it printed. Raises ScriptFailed."""
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, check=True, timeout=FETCH_S,
            env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as exc:
        why = str(getattr(exc, "stderr", None) or exc).strip()
        raise ScriptFailed(
            f"MariaDB is not installed, and `{' '.join(command)}` failed: {why}. Run `apt-get update` first, or"
            " install the package mariadb-server."
        ) from exc
    return done.stdout
