"""A real MariaDB server for tests, either the installed one or one from Debian packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kraal.broker.broker import free_port
from scripts.harness.processes import ScriptFailed, wait_until
from tests.tools.debian import unpack

PACKAGES: Final = ("mariadb-server-core", "mariadb-client-core")
SYSTEM_PREFIX: Final = Path("/usr")
USER: Final = "kraal"
PASSWORD: Final = "not the usual one"  # noqa: S105 - of a server that ends with its caller
TIMEOUT_S: Final = 60.0
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
    """A running server with a readable binary log."""

    process: subprocess.Popen[bytes]
    programs: Path
    environment: Mapping[str, str]
    port: int

    def ask(self, sql: str) -> list[str]:
        """Run statements in the database `test`, and return the tab-separated rows. Raises ScriptFailed."""
        result = self._client(sql, "test")
        if result.returncode:
            raise ScriptFailed(f"MariaDB rejected {sql}: {result.stderr.strip()}")
        return result.stdout.splitlines()

    @contextmanager
    def locked(self, sql: str) -> Iterator[Callable[[], None]]:
        """Hold the locks of a statement in the database `test`; yield a function that releases them."""
        with subprocess.Popen(
            [*self._command("test"), "--unbuffered"],
            env=dict(self.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"BEGIN;\n{sql};\nSELECT 'locked';\n")
            process.stdin.flush()
            while process.stdout.readline().strip() != "locked":
                assert process.poll() is None, "the client has ended"
            yield process.stdin.close

    def is_up(self) -> bool:
        """Return whether the server responds."""
        return self._client("SELECT 1", "mysql").returncode == 0

    def _command(self, database: str) -> list[str]:
        address = ("--protocol=tcp", "-h", "127.0.0.1", "-P", str(self.port), "-u", USER, f"-p{PASSWORD}")
        options = ("--no-defaults", "-N", "-B", "--default-character-set=utf8mb4")
        return [str(self.programs / "bin" / "mariadb"), *options, *address, database]

    def _client(self, sql: str, database: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command(database), "-e", sql],
            env=dict(self.environment), capture_output=True, encoding="utf-8", check=False, timeout=TIMEOUT_S,
        )  # fmt: skip


@contextmanager
def mariadb() -> Iterator[MariaDB]:
    """Run a server on the loopback interface in a temporary directory. Raises ScriptFailed."""
    programs, environment = _find_programs()
    home = Path(tempfile.mkdtemp(prefix="kraal-mariadb-"))
    try:
        common_options = ["--no-defaults", f"--basedir={programs}", f"--datadir={home / 'data'}"]
        common_options += ["--user=root"] if os.geteuid() == 0 else []
        init_file = home / "first.sql"
        init_file.write_text(
            f"CREATE USER '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; CREATE DATABASE test;"
            f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;".replace(";", ";\n"),
            encoding="ascii",
        )
        result = subprocess.run(
            [str(programs / "bin" / "mariadb-install-db"), *common_options, "--skip-test-db"],
            env=environment, capture_output=True, text=True, check=False, cwd=home, timeout=TIMEOUT_S,
        )  # fmt: skip
        if result.returncode:
            raise ScriptFailed(
                f"MariaDB could not create its files in {home}: {result.stdout}{result.stderr}"
            )
        with _run_server(
            programs, environment, home, [*common_options, f"--init-file={init_file}"]
        ) as server:
            yield server
    finally:
        shutil.rmtree(home)


@contextmanager
def _run_server(
    programs: Path, environment: Mapping[str, str], home: Path, common_options: list[str]
) -> Iterator[MariaDB]:
    port, log = free_port(), home / "log"
    options = [f"--port={port}", f"--socket={home / 'socket'}", f"--pid-file={home / 'pid'}", *SETTINGS]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(programs / "sbin" / "mariadbd"), *common_options, *options],
            env=dict(environment), stdout=out, stderr=subprocess.STDOUT, cwd=home, start_new_session=True,
        )  # fmt: skip
    server = MariaDB(process, programs, environment, port)
    try:
        wait_until(
            "MariaDB responded", lambda: process.poll() is not None or server.is_up(), timeout_s=TIMEOUT_S
        )
        if process.poll() is not None:
            raise ScriptFailed(f"MariaDB exited during startup: {log.read_text(errors='replace')}")
        yield server
    finally:
        process.kill()
        process.wait(TIMEOUT_S)


def _find_programs() -> tuple[Path, dict[str, str]]:
    """Return the parent directory of `bin` and `sbin`, and the programs' environment. May download the programs."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    if all(
        (SYSTEM_PREFIX / program).exists()
        for program in ("sbin/mariadbd", "bin/mariadb-install-db", "bin/mariadb")
    ):
        return SYSTEM_PREFIX, environment
    root = unpack(
        "mariadb", *PACKAGES, alternatives="Or install the package mariadb-server.", with_dependencies=True
    )
    libraries = {path.parent for path in root.rglob("*.so*")}
    return root / "usr", environment | {"LD_LIBRARY_PATH": os.pathsep.join(map(str, sorted(libraries)))}
