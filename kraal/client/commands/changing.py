"""`kraal apply`, `diff`, `patch`, `delete`: configs, from files to workers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click

from kraal.client.apply import Done, Live, Secrets, apply_all, prune, sentence, validate
from kraal.client.commands.command import (
    FAILED,
    ClientCommand,
    asking,
    complain,
    emit,
    end,
    for_each,
    name_argument,
    names_argument,
    output_option,
    say,
)
from kraal.client.commands.states import wait_for, wait_options
from kraal.client.manifests import STDIN, SUFFIXES, Wanted, Wants, read_wants
from kraal.client.plan import Action, action_for, difference, patched
from kraal.client.rest import NoAnswer, Refused, Rest
from kraal.client.secrets import scrub
from kraal.client.text import printable
from kraal.client.wait import CHANGED_S, current_target, fetch_one
from kraal.errors import BadRequest

DIFFERS = 1
DIFF_TROUBLE = 2
_DIFF_CODES = (
    "Exit codes: 0 nothing differs; 1 something does; 2 a file or a worker could not be read, or the command line "
    "cannot be understood."
)

files_option = click.option(
    "-f",
    "--file",
    "paths",
    required=True,
    multiple=True,
    metavar="FILE_OR_DIR",
    help=f"A connector file; a directory, for its files that end in {', '.join(SUFFIXES)}, by name; "
    f"{STDIN} for standard input. Repeatable.",
)
recursive_option = click.option("-R", "--recursive", is_flag=True, help="Directories with all below them.")
prune_option = click.option(
    "--prune", "prunes", is_flag=True, help="Also DELETE every connector that no file names."
)


class DiffCommand(ClientCommand):
    """As diff(1) has it, trouble is 2: 1 says that something differs."""

    trouble = DIFF_TROUBLE


@click.command(
    "apply",
    cls=ClientCommand,
    short_help="Make connectors what files say.",
    examples=(
        "kraal apply -f orders-source.json",
        "kraal apply -f connectors/ --dry-run",
        "kraal apply -f connectors/ --wait --timeout 60",
    ),
)
@files_option
@recursive_option
@click.option("--dry-run", is_flag=True, help="Have the worker check the configs, and change nothing.")
@prune_option
@wait_options
@output_option
@asking
def apply_command(
    rest: Rest,
    paths: tuple[str, ...],
    *,
    recursive: bool,
    dry_run: bool,
    prunes: bool,
    waits: bool,
    timeout_s: float,
    style: str,
) -> None:
    """Make connectors what files say: create what is missing, reconfigure what differs, leave the rest alone.

    A file holds one connector: as flat JSON or properties with a `name`, or as the body of POST /connectors, whose
    `initial_state` (RUNNING, PAUSED, STOPPED) counts when the connector is created. YAML files (.yaml, .yml) hold the
    same, as many documents as wanted. Values may be references such as ${file:/run/db.properties:password}.

    Every connector is tried, whatever becomes of others; all errors are printed. Nothing is deleted without --prune,
    which does nothing as long as any file is faulty.
    """
    wants = _read(paths, recursive=recursive)
    _refuse_nothing(wants, prunes=prunes)
    live = Live(rest)
    done: list[Done] = []
    for each in apply_all(rest, live, wants.wanted, dry_run=dry_run):
        done.append(each)
        _say_done(each, style, dry_run=dry_run)
    failed = bool(wants.faults) or any(each.action is Action.FAILED for each in done)
    if prunes and wants.faults:
        complain("nothing is deleted, because of the faulty files")
    elif prunes:
        for each in prune(rest, live, wants.wanted, dry_run=dry_run):
            done.append(each)
            _say_done(each, style, dry_run=dry_run)
            failed = failed or each.action is Action.FAILED
    if style != "table":
        emit([_as_data(each, dry_run=dry_run) for each in done], style)
    if waits and not dry_run and not _wait(rest, wants.wanted, done, timeout_s, quiet=style != "table"):
        failed = True
    end(well=not failed)


def _read(paths: Sequence[str], *, recursive: bool) -> Wants:
    """Read all files, and print what is wrong with them."""
    wants = read_wants(paths, sys.stdin, recursive=recursive)
    for fault in wants.faults:
        complain(fault)
    return wants


def _refuse_nothing(wants: Wants, *, prunes: bool) -> None:
    if not wants.wanted:
        said = "; --prune would delete every connector" if prunes else ""
        raise BadRequest(f"There is no connector to apply in these files{said}.")


def _say_done(done: Done, style: str, *, dry_run: bool) -> None:
    if done.error is not None:
        complain(f"{done.where}: {done.name}: {done.error}" if done.where else f"{done.name}: {done.error}")
    elif style == "table":
        say(f"{done.name} {done.action}{' (dry run)' if dry_run else ''}")


def _as_data(done: Done, *, dry_run: bool) -> dict[str, Any]:
    return {
        "name": done.name,
        "action": str(done.action),
        "file": done.where or None,
        "error": done.error,
        "dry_run": dry_run,
    }


def _wait(
    rest: Rest, wanted: Sequence[Wanted], done: Sequence[Done], timeout_s: float, *, quiet: bool
) -> bool:
    """Wait for what was applied; a connector that was paused or stopped before stays so."""
    actions = {each.name: each.action for each in done}
    states: dict[str, str] = {}
    for each in wanted:
        if actions.get(each.name) is Action.CREATED:
            states[each.name] = each.initial_state or "RUNNING"
        elif actions.get(each.name) in (Action.CONFIGURED, Action.UNCHANGED):
            states[each.name] = current_target(fetch_one(rest, each.name))
    settle_s = {name: CHANGED_S for name in states if actions[name] is Action.CONFIGURED}
    return wait_for(rest, states, settle_s=settle_s, timeout_s=timeout_s, quiet=quiet)


@click.command(
    "diff",
    cls=DiffCommand,
    short_help="Show what apply would change.",
    epilog=_DIFF_CODES,
    examples=("kraal diff -f connectors/ || kraal apply -f connectors/",),
)
@files_option
@recursive_option
@prune_option
@asking
def diff(rest: Rest, paths: tuple[str, ...], *, recursive: bool, prunes: bool) -> None:
    """Show what `kraal apply` of the same files would change, as a unified diff. Changes nothing.

    Lines with - are what the worker has, lines with + what the files have. Secrets are [hidden]; one that differs says
    so. With --prune, connectors that no file names are shown as deleted.
    """
    wants = _read(paths, recursive=recursive)
    _refuse_nothing(wants, prunes=prunes)
    live, secrets = Live(rest), Secrets(rest)
    differs, trouble = False, bool(wants.faults)
    for each in wants.wanted:
        try:
            config = live.config(each.name)
            lines = difference(
                (f"{each.name} at {rest.target.url}", config),
                (f"{each.name} in {each.where}", each.config),
                secrets.of(each.config),
            )
        except (Refused, NoAnswer) as error:
            complain(f"{each.name}: {error}")
            trouble = True
            continue
        differs = differs or action_for(config, each.config) is not Action.UNCHANGED
        _print_diff(lines)
    if prunes and not wants.faults:
        kept = {each.name for each in wants.wanted}
        for name in (name for name in live.names if name not in kept):
            config = live.config(name) or {}
            titles = f"{name} at {rest.target.url}", f"{name} in no file"
            _print_diff(difference((titles[0], config), (titles[1], None), secrets.of(config)))
            differs = True
    if trouble or differs:
        raise click.exceptions.Exit(DIFF_TROUBLE if trouble else DIFFERS)


_COLORS = {"-": "red", "+": "green", "@": "cyan"}


def _print_diff(lines: Sequence[str]) -> None:
    """Print a diff, in colours on a terminal, unless NO_COLOR is set."""
    for line in lines:
        is_title = line.startswith(("--- ", "+++ "))
        color = None if is_title or os.environ.get("NO_COLOR") else _COLORS.get(line[:1])
        click.secho(line, fg=color)


@click.command(
    "patch",
    cls=ClientCommand,
    short_help="Change some keys of a connector's config.",
    examples=(
        "kraal patch orders-source tasks.max=4 topic=orders",
        "kraal patch orders-source --remove errors.tolerance",
        "kraal patch orders-source -f secrets.json",
    ),
)
@name_argument
@click.argument("assignments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--remove", "removed", multiple=True, metavar="KEY", help="Take a key out. Repeatable.")
@click.option(
    "-f",
    "--file",
    "path",
    metavar="FILE",
    help="A JSON object of keys and values, null to remove; - for standard input. For secrets: what stands on a "
    "command line can be read by others.",
)
@click.option(
    "--dry-run", is_flag=True, help="Show the difference, have the worker check it, change nothing."
)
@asking
def patch(
    rest: Rest,
    name: str,
    assignments: tuple[str, ...],
    *,
    removed: tuple[str, ...],
    path: str | None,
    dry_run: bool,
) -> None:
    """Change some keys of a connector's config, and keep the others (KIP-477)."""
    changes = {**_changes_of(path), **_assigned(assignments), **dict.fromkeys(removed)}
    if not changes:
        raise click.UsageError("Give KEY=VALUE, --remove or -f: there is nothing to change.")
    config = rest.get("connectors", name, "config")
    after = patched(config, changes)
    secrets = Secrets(rest).of(after)
    try:
        if after == config:
            say(f"{name} {Action.UNCHANGED}")
        elif dry_run:
            _print_diff(difference((f"{name} now", config), (f"{name} patched", after), secrets))
            validate(rest, after)
        else:
            rest.ask("PATCH", "connectors", name, "config", body=changes)
            say(f"{name} {Action.CONFIGURED}")
    except (Refused, NoAnswer) as error:
        complain(f"{name}: {scrub(sentence(error), after, secrets)}")
        raise click.exceptions.Exit(FAILED) from error


def _assigned(assignments: Sequence[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for each in assignments:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{printable(each)} is not KEY=VALUE.")
        found[key] = value
    return found


def _changes_of(path: str | None) -> dict[str, str | None]:
    """Read a file of changes. Raises BadRequest, naming the file."""
    if path is None:
        return {}
    try:
        text = sys.stdin.read() if path == STDIN else Path(path).read_text("utf-8")
        content = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except OSError as exc:
        raise BadRequest(f"Cannot read '{path}': {exc.strerror or exc}.") from exc
    except (ValueError, RecursionError) as exc:
        raise BadRequest(f"'{path}' is no JSON: {exc}.") from exc
    if not isinstance(content, dict) or any(isinstance(value, (dict, list)) for value in content.values()):
        raise BadRequest(f"'{path}' is no JSON object of texts and nulls.")
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in content.items()}


@click.command(
    "delete",
    cls=ClientCommand,
    short_help="Delete connectors; their offsets stay.",
    examples=(
        "kraal delete orders-source",
        "kraal delete -f connectors/ --ignore-missing",
    ),
)
@names_argument
@click.option(
    "-f",
    "--file",
    "paths",
    multiple=True,
    metavar="FILE_OR_DIR",
    help="The connectors of files, as of apply.",
)
@recursive_option
@click.option("--ignore-missing", is_flag=True, help="No error for a connector that is not there.")
@asking
def delete(
    rest: Rest, names: tuple[str, ...], *, paths: tuple[str, ...], recursive: bool, ignore_missing: bool
) -> None:
    """Delete connectors: config and tasks. Offsets stay, and count again if the name comes back."""
    wants = _read(paths, recursive=recursive)
    if not names and not paths:
        raise click.UsageError("Name connectors, or give -f.")

    def send(name: str) -> None:
        rest.ask("DELETE", "connectors", name)
        say(f"{name} deleted")

    def missing(error: Refused) -> bool:
        return ignore_missing and error.status == HTTPStatus.NOT_FOUND and not error.no_such_path

    well = for_each([*names, *(each.name for each in wants.wanted)], send, ignore=missing)
    end(well=well and not wants.faults)
