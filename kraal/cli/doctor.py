"""`kraal doctor`: check what a worker needs before it is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kraal.client.command import output_option
from kraal.client.output import emit, painted, say
from kraal.core.secrets import secrets
from kraal.doctor.finding import Finding, Level

_COLORS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.OK: "green"}


@click.command("doctor", short_help="Check what a worker needs, and say what to do.")
@click.argument("worker", type=click.Path(path_type=Path), required=False, metavar="[WORKER.properties]")
@output_option
def doctor(worker: Path | None, *, style: str) -> None:
    """Check Java, memory, disk, ports, brokers, topics, plugins and Spark, and say what to do about each problem.

    With WORKER.properties, everything that this worker needs is checked; without it, only the machine and Java. Nothing
    is changed or created. docs/deploy/doctor.md describes the checks.

    Exit codes: 0 no errors, though perhaps warnings; 1 at least one error.
    """
    # Imported late because --help does not need it.
    from kraal.doctor.run import examine  # noqa: PLC0415
    from kraal.doctor.subject import Subject, read_subject  # noqa: PLC0415

    subject, findings = (Subject(), []) if worker is None else read_subject(worker)
    found = [*findings, *examine(subject)]
    if style == "table":
        _print(found)
    else:
        emit(
            [{key: secrets.scrub(str(value)) for key, value in asdict(each).items()} for each in found], style
        )
    if any(each.level is Level.ERROR for each in found):
        raise click.exceptions.Exit(1)


def _print(found: Sequence[Finding]) -> None:
    """Print a line for each finding, and below it what to do."""
    wide = max(len(each.id) for each in found)
    for each in found:
        click.echo(f"{painted(f'{each.level:<7}', _COLORS.get(each.level))}  ", nl=False)
        say(secrets.scrub(f"{each.id:<{wide}}  {each.what}"))
        if each.fix:
            say(secrets.scrub(f"{'':<{wide + 11}}{each.fix}"))
    worst = [each.level for each in found]
    say(f"{worst.count(Level.ERROR)} errors, {worst.count(Level.WARNING)} warnings")
