"""Tests that Kraal reports conflicts with other packages named `web` or `actors`, which pip does not report."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from tests.integration.packages.environments import Environment

pytestmark = pytest.mark.ci


@pytest.fixture
def environment(client_environment: Environment, tmp_path: Path) -> Environment:
    """Return a copy of the client's environment whose `kraal` runs with its own Python."""
    new_environment = Environment.create(tmp_path / "venv")
    shutil.copytree(client_environment.packages, new_environment.packages, dirs_exist_ok=True)
    script = new_environment.home / "bin" / "kraal"
    script.write_text(
        f"#!{new_environment.home}/bin/python\nfrom kraal.cli.main import main\nmain(prog_name='kraal')\n"
    )
    script.chmod(0o755)
    assert new_environment.kraal("ls", "--help").returncode == 0
    return new_environment


def build_neighbour_wheel(home: Path, name: str, package: str) -> Path:
    """Create a wheel of another project that contains one package. Return the path of the wheel."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{package}/__init__.py": "raise SystemExit('this is the neighbour')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = home / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name_in_wheel, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name_in_wheel, text)
    return path


@pytest.mark.parametrize("package", ["web", "actors"])
def test_shadowing_package_is_named(environment: Environment, package: str, tmp_path: Path) -> None:
    shadowing_file = tmp_path / "other" / package / "__init__.py"
    shadowing_file.parent.mkdir(parents=True)
    shadowing_file.write_text("raise SystemExit('this is the neighbour')\n")
    result = environment.kraal("ls", env={"PYTHONPATH": str(tmp_path / "other")})
    assert result.returncode == 1
    assert result.stderr == (
        f"Error: Kraal's package '{package}' is shadowed by {shadowing_file}; install Kraal in its own environment.\n"
    )


def test_overwritten_package_is_reported_until_kraal_is_reinstalled(
    environment: Environment, wheel: Path, tmp_path: Path
) -> None:
    environment.pip(
        "install", "--no-deps", "--no-index", str(build_neighbour_wheel(tmp_path, "garden", "web"))
    )
    result = environment.kraal("ls")
    assert result.returncode == 1
    assert result.stderr == (
        "Error: Kraal's package 'web' was replaced by garden, which has a package of that name; "
        "install Kraal in its own environment.\n"
    )
    environment.pip("uninstall", "--yes", "garden")
    result = environment.kraal("ls")
    assert result.returncode == 1
    assert "Kraal's package 'web' is missing: " in result.stderr
    assert result.stderr.endswith("; reinstall Kraal.\n")
    environment.pip("install", "--no-deps", "--no-index", "--force-reinstall", str(wheel))
    assert environment.kraal("ls", "--help").returncode == 0
