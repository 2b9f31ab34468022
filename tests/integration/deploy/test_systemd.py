"""Tests that the systemd unit is valid, hardened, and consistent with a worker's timeouts and exit codes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kraal.worker.process import (
    ACTOR_FAILED,
    CLOSE_TIMEOUT_S,
    CONNECTOR_FAILED,
    FORCED_EXIT_DELAY_S,
    SHUTDOWN_GRACE_S,
    START_FAILED,
)
from kraal.worker.watchdog import FORCED_EXIT_CODE
from tests.integration.deploy.chart import ROOT, render

pytestmark = [pytest.mark.ci, pytest.mark.timeout(1800)]  # the first test may build helm

FOLDER = ROOT / "deploy" / "systemd"
UNIT = (FOLDER / "kraal@.service").read_text(encoding="utf-8")
MAX_EXPOSURE = 20
"""Maximum exposure level in tenths. A unit without any restriction has 100 (10.0)."""
GRACEFUL_SHUTDOWN_S = 5
"""Default of task.shutdown.graceful.timeout.ms, in seconds."""


def settings(key: str) -> list[str]:
    """Return the values of a setting in the unit."""
    return re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a systemd program."""
    program = shutil.which(name)
    if program is None:
        pytest.fail(f"No {name} found. Install systemd 250 or newer; it need not run.")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=30)


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Write the unit of an instance, with a program that exists on this machine, and return the unit's path."""
    file = tmp_path / "kraal@orders.service"
    file.write_text(UNIT.replace("ExecStart=/opt/kraal/bin/kraal ", "ExecStart=/bin/true "), encoding="utf-8")
    return file


def test_systemd_accepts_every_setting(unit: Path) -> None:
    result = run("systemd-analyze", "verify", "--man=no", str(unit))
    assert (result.returncode, [line for line in result.stderr.splitlines() if "kraal" in line]) == (0, [])


def test_systemd_reports_an_unknown_setting(unit: Path) -> None:
    unit.write_text(
        unit.read_text(encoding="utf-8").replace("NoNewPrivileges", "NoPrivileges"), encoding="utf-8"
    )
    assert "NoPrivileges" in run("systemd-analyze", "verify", "--man=no", str(unit)).stderr


def test_unit_is_hardened(unit: Path) -> None:
    result = run(
        "systemd-analyze",
        "security",
        "--offline=true",
        f"--threshold={MAX_EXPOSURE}",
        "--no-pager",
        str(unit),
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_unit_permits_jit_compilation_and_access_to_proc() -> None:
    assert settings("MemoryDenyWriteExecute") == []
    assert settings("ProcSubset") == []


def test_stop_timeout_exceeds_the_shutdown_time() -> None:
    shutdown_s = GRACEFUL_SHUTDOWN_S + SHUTDOWN_GRACE_S + CLOSE_TIMEOUT_S + FORCED_EXIT_DELAY_S
    [timeout] = settings("TimeoutStopSec")
    assert shutdown_s <= int(timeout) <= shutdown_s + 10
    pod = render({"preStopSeconds": 0}).one("StatefulSet")["spec"]["template"]["spec"]
    assert shutdown_s <= pod["terminationGracePeriodSeconds"] <= shutdown_s + 10


def test_unit_restarts_after_retriable_failures_only() -> None:
    [prevented_codes] = settings("RestartPreventExitStatus")
    assert {int(code) for code in prevented_codes.split()} == {START_FAILED, CONNECTOR_FAILED}
    assert not {ACTOR_FAILED, FORCED_EXIT_CODE, 1} & {int(code) for code in prevented_codes.split()}
    assert settings("Restart") == ["on-failure"]


def test_user_and_config_directory_are_created(tmp_path: Path) -> None:
    for directory in ("etc", "run"):
        (tmp_path / directory).mkdir()
    result = run("systemd-sysusers", f"--root={tmp_path}", str(FOLDER / "kraal.sysusers"))
    assert result.returncode == 0, result.stderr
    [user] = (tmp_path / "etc/passwd").read_text(encoding="utf-8").splitlines()
    assert (user.split(":")[0], user.split(":")[6]) == (settings("User")[0], "/usr/sbin/nologin")
    config = tmp_path / "etc/kraal/orders.properties"
    config.parent.mkdir()
    config.write_text("", encoding="utf-8")
    result = run("systemd-tmpfiles", "--create", f"--root={tmp_path}", str(FOLDER / "kraal.tmpfiles"))
    assert result.returncode == 0, result.stderr
    modes = [f"{path.stat().st_mode & 0o7777:o}" for path in (config.parent, config)]
    assert modes == ["750", "640"]


def test_chart_image_and_unit_start_the_same_command() -> None:
    [command] = settings("ExecStart")
    assert command.split()[1:] == ["distributed", "/etc/kraal/%i.properties"]
    assert render({}).worker["args"][0] == command.split()[1]
