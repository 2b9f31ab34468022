"""Tests for the packages of each extra, and for `kraal` without extras."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kraal.cli.extras import PACKAGES, SMALLER_EXTRAS, missing_text
from kraal.cli.main import CLIENT_COMMANDS, WORKER_COMMANDS, Commands
from kraal.client.lazy import LazyCommand
from tests.fakes.distributions import PROJECT, ROOT, add_dependencies, requirements

OPTIONAL_DEPENDENCIES = PROJECT["optional-dependencies"]
EXTRAS = {
    extra: {
        canonicalize_name(package.name)
        for package in map(Requirement, OPTIONAL_DEPENDENCIES[extra])
        if package.name != "kraal"
    }
    for extra in OPTIONAL_DEPENDENCIES
}


def python_with(directory: Path, *extras: str) -> list[str]:
    """Return a command prefix that runs Python with only Kraal and the requirements of these extras."""
    for name in add_dependencies(
        {canonicalize_name(requirement.name) for requirement in requirements(*extras)}
    ):
        package = distribution(name)
        for top_level_name in {file.parts[0] for file in package.files or () if file.parts[0] != ".."}:
            if top_level_name != "__pycache__" and not (directory / top_level_name).exists():
                (directory / top_level_name).symlink_to(str(package.locate_file(top_level_name)))
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(directory)!r}]; exec(sys.argv.pop(1))"
    return [sys.executable, "-I", "-S", "-c", code]


@pytest.fixture(scope="module")
def client_python(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return a command prefix that runs Python with only Kraal and the dependencies of the client."""
    return python_with(tmp_path_factory.mktemp("client"))


def run(client_python: list[str], code: str) -> str:
    result = subprocess.run([*client_python, code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_package_of_an_extra_has_an_import_name() -> None:
    distributions = packages_distributions()
    for extra in ("worker", "registry", "test"):
        mapped_packages = {
            canonicalize_name(distributions[module][0])
            for module, package_extra in PACKAGES.items()
            if package_extra == extra
        }
        assert mapped_packages == EXTRAS[extra]


def test_smaller_extras_are_subsets_of_the_worker_extra() -> None:
    assert EXTRAS["kafka"] < EXTRAS["worker"]
    assert set(SMALLER_EXTRAS.values()) <= set(EXTRAS)


def test_extra_for_tests_includes_the_worker() -> None:
    assert "kraal[worker]" in OPTIONAL_DEPENDENCIES["test"]


def test_lock_file_covers_the_client_and_every_extra() -> None:
    lines = (ROOT / "requirements.in").read_text("utf-8").splitlines()
    locked_packages = {canonicalize_name(line.partition("==")[0]) for line in lines if "==" in line}
    assert {canonicalize_name(requirement.name) for requirement in requirements(*EXTRAS)} <= locked_packages


def test_help_of_every_command_requires_only_the_client(client_python: list[str]) -> None:
    code = (
        "import json; from click.testing import CliRunner; "
        "from kraal.cli.main import CLIENT_COMMANDS, WORKER_COMMANDS, main; "
        "run = lambda *arguments: CliRunner().invoke(main, [*arguments, '--help']).exit_code; "
        "print(json.dumps({name: run(name) for name in {**CLIENT_COMMANDS, **WORKER_COMMANDS}})); "
        "print(sorted(set(sys.modules) & set(['pykka', 'pyspark', 'numpy', 'confluent_kafka', 'kafka'])))"
    )
    codes, imported_modules = run(client_python, code).splitlines()
    assert json.loads(codes) == dict.fromkeys({**CLIENT_COMMANDS, **WORKER_COMMANDS}, 0)
    assert imported_modules == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["standalone", "worker.properties"], "needs the worker: pip install 'kraal[worker]'"),
        (["distributed", "worker.properties"], "needs the worker: pip install 'kraal[worker]'"),
        (["mirror", "mm2.properties"], "needs the worker: pip install 'kraal[worker]'"),
        (["kafka", "status"], "needs the worker: pip install 'kraal[worker]'"),
        (["plugins", "add", "org:name:1"], "needs the worker: pip install 'kraal[worker]'"),
        (["dlq", "ls", "--bootstrap-servers", "k:1"], "needs Kafka's client: pip install 'kraal[kafka]'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_command_of_a_missing_extra_names_the_package_to_install(
    client_python: list[str], arguments: list[str], message: str
) -> None:
    code = f"from kraal.cli.main import main; main({arguments!r}, prog_name='kraal')"
    result = subprocess.run([*client_python, code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Error: `kraal {arguments[0]}` {message}\n"


def test_dlq_requires_only_the_kafka_extra(tmp_path: Path) -> None:
    code = "from kraal.cli.main import main; main(['dlq', 'ls', '--url', 'http://127.0.0.1:1'], prog_name='kraal')"
    result = subprocess.run(
        [*python_with(tmp_path, "kafka"), code],
        capture_output=True,
        text=True,
        check=False,
        env={"KRAAL_BOOTSTRAP_SERVERS": "127.0.0.1:1"},
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "Cannot connect to http://127.0.0.1:1" in result.stderr
    imports = "import kraal.dead_letters.kafka, kraal.config.clients.tls, kraal.config.clients.private_keys"
    run(python_with(tmp_path, "kafka"), imports)


def test_doctor_of_a_running_worker_requires_only_the_client(client_python: list[str]) -> None:
    code = (
        "from kraal.cli.main import main; main(['doctor', '--url', 'http://127.0.0.1:1'], prog_name='kraal')"
    )
    result = subprocess.run([*client_python, code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "")
    assert "Cannot connect to http://127.0.0.1:1" in result.stdout


def test_unknown_module_names_no_extra() -> None:
    assert missing_text("nonsense", "status") is None
    assert missing_text(None, "status") is None
    assert missing_text("authlib.jose", None) == (
        "`kraal` needs the client of schema registries: pip install 'kraal[registry]'"
    )


def test_missing_module_outside_extras_is_raised() -> None:
    lazy = LazyCommand("kraal.cli.nonsense", "nonsense", "")
    result = CliRunner().invoke(Commands("kraal", lazy={"nonsense": lazy}), ["nonsense"])
    assert isinstance(result.exception, ModuleNotFoundError)
