"""`kraal doctor`: check the requirements of a worker before it is started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Final

import click

from kraal.client.command import output_option
from kraal.client.output import emit, say
from kraal.client.target import InvalidTarget, Target, parse_target
from kraal.client.terminal.colors import colorize
from kraal.core.printable import format_count
from kraal.core.progress import Progress
from kraal.core.secrets import secrets
from kraal.doctor.finding import Finding, Level

_TIMEOUT_S: Final = 10.0
_RETRY_TIMEOUT_S: Final = 5.0
"""Time limit for retries of a request during a rebalance."""
_COLORS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.OK: "green"}


@click.command("doctor", short_help="Check a worker's requirements and suggest fixes.")
@click.argument("worker", type=click.Path(path_type=Path), required=False, metavar="[WORKER.properties]")
@click.option("--url", help="REST API URL of a running worker to check, Kraal's or Java's.")
@click.option(
    "--cacert",
    type=click.Path(path_type=Path, dir_okay=False),
    help="PEM file with trusted CA certificates for https.",
)
@output_option
def doctor(worker: Path | None, *, url: str | None, cacert: Path | None, style: str) -> None:
    """Check Java, memory, disk, ports, brokers, topics, ACLs, plugins and Spark, and suggest a fix for each problem.

    With WORKER.properties, all requirements of this worker are checked. With --url, a running worker is queried about
    itself, its connectors and the other workers; KRAAL_USER and KRAAL_PASSWORD set the user and password. Without
    either, only the machine, the installation of Kraal and Java are checked. Nothing is changed or created.
    docs/deploy/doctor.md describes the checks.

    Exit codes: 0 no errors (warnings are possible); 1 at least one error; 2 invalid usage.
    """
    target = None if url is None else _read_target(url, cacert)
    with Progress("Checking the worker's requirements"):
        findings = _run_checks(worker, target)
    if style == "table":
        _print_findings(findings)
    else:
        emit([_as_data(finding) for finding in findings], style)
    if any(finding.level is Level.ERROR for finding in findings):
        raise click.exceptions.Exit(1)


def _run_checks(worker: Path | None, target: Target | None) -> list[Finding]:
    """Run the checks. If only a URL is set, skip the local checks, which require the worker's packages."""
    # Imported late because --help does not need it.
    from kraal.doctor import run  # noqa: PLC0415

    findings: list[Finding] = []
    checks: dict[str, run.Check] = {}
    if worker is not None or target is None:
        from kraal.doctor.checks import local_checks  # noqa: PLC0415
        from kraal.doctor.subject import Subject, read_subject  # noqa: PLC0415

        subject, findings = (Subject(), []) if worker is None else read_subject(worker)
        checks = local_checks(subject)
    if target is not None:
        from kraal.doctor.running import check_running  # noqa: PLC0415

        checks["running worker"] = partial(check_running, target)
    return [*findings, *run.run_checks(checks)]


def _read_target(url: str, cacert: Path | None) -> Target:
    """Return the target for a URL, with the credentials in the environment. Raises UsageError."""
    try:
        return parse_target(
            url,
            user=os.environ.get("KRAAL_USER"),
            password=os.environ.get("KRAAL_PASSWORD"),
            cacert=cacert,
            timeout_s=_TIMEOUT_S,
            retry_s=_RETRY_TIMEOUT_S,
        )
    except InvalidTarget as exc:
        raise click.UsageError(str(exc)) from exc


def _as_data(finding: Finding) -> dict[str, str]:
    """Return a finding as data for scripts, without secrets."""
    fields = {
        "id": finding.id,
        "area": finding.area,
        "level": str(finding.level),
        "what": finding.what,
        "fix": finding.fix,
    }
    return {key: secrets.scrub(value) for key, value in fields.items()}


def _print_findings(findings: Sequence[Finding]) -> None:
    """Print a line for each finding, followed by its fix; a fix shared by consecutive findings is printed once."""
    id_width = max(len(finding.id) for finding in findings)
    for finding, next_finding in zip_longest(findings, findings[1:]):
        click.echo(f"{colorize(f'{finding.level:<7}', _COLORS.get(finding.level))}  ", nl=False)
        say(secrets.scrub(f"{finding.id:<{id_width}}  {finding.what}"))
        if finding.fix and (
            next_finding is None or (next_finding.id, next_finding.fix) != (finding.id, finding.fix)
        ):
            say(secrets.scrub(f"{'':<{id_width + 11}}{finding.fix}"))
    levels = [finding.level for finding in findings]
    say(
        f"{format_count(levels.count(Level.ERROR), 'error')}, {format_count(levels.count(Level.WARNING), 'warning')}"
    )
