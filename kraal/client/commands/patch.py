"""`kraal patch`: change single keys of a connector config."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kraal.client.apply import Secrets, format_error, validate
from kraal.client.command import (
    FAILURE_EXIT_CODE,
    ClientCommand,
    name_argument,
    with_rest,
)
from kraal.client.manifests import STDIN
from kraal.client.output import emit_diff, print_error, say
from kraal.client.plan import Action, apply_patch, difference
from kraal.client.rest import NoResponse, RequestRejected, Rest
from kraal.config.hidden import scrub
from kraal.core.errors import BadRequest, KraalError
from kraal.core.printable import printable


@click.command(
    "patch",
    cls=ClientCommand,
    short_help="Change single keys of a connector config.",
    examples=(
        "kraal patch orders-source tasks.max=4 topic=orders",
        "kraal patch orders-source --remove errors.tolerance",
        "kraal patch orders-source -f secrets.json",
    ),
)
@name_argument
@click.argument("assignments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--remove", "removed_keys", multiple=True, metavar="KEY", help="Remove a key (repeatable).")
@click.option(
    "-f",
    "--file",
    "path",
    metavar="FILE",
    help="JSON file with an object of keys and values, null to remove a key; - for standard input. Use this option "
    "for secrets, because other users can see command lines.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the diff and validate the new config on the worker without changing anything.",
)
@with_rest
def patch(
    rest: Rest,
    name: str,
    assignments: tuple[str, ...],
    *,
    removed_keys: tuple[str, ...],
    path: str | None,
    dry_run: bool,
) -> None:
    """Change single keys of a connector config and keep the others (KIP-477)."""
    changes = {**_read_changes(path), **_parse_assignments(assignments), **dict.fromkeys(removed_keys)}
    if not changes:
        raise click.UsageError("Nothing to change; specify KEY=VALUE, --remove or -f.")
    config = rest.get("connectors", name, "config")
    patched_config = apply_patch(config, changes)
    secrets = Secrets(rest).keys_of(patched_config)
    try:
        if patched_config == config:
            say(f"{name} {Action.UNCHANGED}")
        elif dry_run:
            emit_diff(difference((f"{name} now", config), (f"{name} patched", patched_config), secrets))
            validate(rest, patched_config)
        else:
            rest.ask("PATCH", "connectors", name, "config", body=changes)
            say(f"{name} {Action.CONFIGURED}")
    except (RequestRejected, NoResponse) as error:
        scrubbed_error = KraalError(scrub(format_error(error), patched_config, secrets), hint=error.hint)
        print_error(scrubbed_error, about=name)
        raise click.exceptions.Exit(FAILURE_EXIT_CODE) from error


def _parse_assignments(assignments: Sequence[str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key:
            raise click.UsageError(f"Invalid argument '{printable(assignment)}'; expected KEY=VALUE.")
        changes[key] = value
    return changes


def _read_changes(path: str | None) -> dict[str, str | None]:
    """Read a file of changes. Raises BadRequest with the file name."""
    if path is None:
        return {}
    try:
        text = sys.stdin.read() if path == STDIN else Path(path).read_text("utf-8")
        content = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except OSError as exc:
        raise BadRequest(f"Cannot read '{path}': {exc.strerror or exc}.") from exc
    except (ValueError, RecursionError) as exc:
        raise BadRequest(f"'{path}' is not valid JSON: {exc}.") from exc
    if not isinstance(content, dict) or any(isinstance(value, (dict, list)) for value in content.values()):
        raise BadRequest(
            f"Invalid content of '{path}'; expected a JSON object whose values are strings or null."
        )
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in content.items()}
