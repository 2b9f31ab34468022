"""Tests for the modules that `kraal` imports, which determine its startup time (see the benchmark `client`)."""

from __future__ import annotations

import subprocess
import sys

from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.distributions import ROOT
from tests.fakes.workers.connect import connect

HELP_MODULES = {
    "kraal",
    "kraal.cli",
    "kraal.cli.extras",
    "kraal.cli.main",
    "kraal.cli.neighbours",
    "kraal.client",
    "kraal.client.commands",
    "kraal.client.lazy",
    "kraal.core",
    "kraal.core.errors",
    "kraal.core.secrets",
}
HTTP_PACKAGES = {"anyio", "brotli", "certifi", "h11", "httpcore2", "httpx2", "idna", "truststore"}
"""The HTTP client with its required and optional dependencies."""
SLOW_MODULES = {
    "asyncio",
    "concurrent",
    "ctypes",
    "multiprocessing",
    "pkgutil",
    "sqlite3",
    "subprocess",
    "unittest",
    "xml",
}
"""Standard library modules with a long import time."""


def imported_modules(*arguments: str) -> set[str]:
    """Run `kraal` in a separate process and return the names of all imported modules."""
    code = (
        "import atexit, sys; from kraal.cli.main import main; "
        "atexit.register(lambda: print('modules:', *sys.modules, file=sys.stderr)); main(prog_name='kraal')"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(result.stderr.partition("modules:")[2].split())


def packages(module_names: set[str]) -> set[str]:
    """Return the top-level packages that are neither private nor part of the standard library."""
    top_packages = {name.partition(".")[0] for name in module_names}
    return {name for name in top_packages if not name.startswith("_")} - sys.stdlib_module_names


def select_kraal_modules(module_names: set[str]) -> set[str]:
    return {name for name in module_names if name.partition(".")[0] in ("kraal", "actors", "web")}


def test_help_imports_no_commands() -> None:
    module_names = imported_modules("--help")
    assert select_kraal_modules(module_names) == HELP_MODULES
    assert packages(module_names) == {"kraal", "click", "typing_extensions"}
    assert module_names & SLOW_MODULES == set()


def test_version_imports_no_more_than_help() -> None:
    assert select_kraal_modules(imported_modules("--version")) == HELP_MODULES


def test_status_imports_an_http_client_but_no_worker_modules() -> None:
    with connect() as worker:
        worker.create("orders", {"connector.class": FAKE_SOURCE})
        module_names = imported_modules("status", "--url", worker.url)
    assert packages(module_names) <= {"kraal", "click", "typing_extensions", *HTTP_PACKAGES}
    assert "httpx2" in module_names
    folders = {".".join(name.split(".")[:2]) for name in select_kraal_modules(module_names)}
    assert folders == {"kraal", "kraal.cli", "kraal.client", "kraal.config", "kraal.core", "kraal.ledger"}
    assert module_names & SLOW_MODULES == set()


def test_command_imports_only_its_own_module() -> None:
    module_names = imported_modules("status", "--help")
    assert {name for name in module_names if name.startswith("kraal.client.commands.")} == {
        "kraal.client.commands.status"
    }
    assert "httpx2" not in module_names
