"""`kraal apply`: create and reconfigure connectors from files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kraal.client.apply import LiveConfigs, Result, apply_all, prune
from kraal.client.command import (
    ClientCommand,
    exit_with_status,
    output_option,
    with_rest,
)
from kraal.client.file_options import (
    files_option,
    prune_option,
    read_files,
    recursive_option,
    require_connectors,
)
from kraal.client.manifests import Manifest
from kraal.client.output import emit, print_error, say
from kraal.client.plan import Action
from kraal.client.rest import Rest
from kraal.client.wait import SETTLE_S, current_target, fetch_one
from kraal.client.wait_options import wait_for, wait_options
from kraal.core.errors import KraalError


@click.command(
    "apply",
    cls=ClientCommand,
    short_help="Create or update connectors from files.",
    examples=(
        "kraal apply -f orders-source.json",
        "kraal apply -f connectors/ --dry-run",
        "kraal apply -f connectors/ --wait --timeout 60",
    ),
)
@files_option
@recursive_option
@click.option("--dry-run", is_flag=True, help="Validate the configs on the worker without changing anything.")
@prune_option
@wait_options
@output_option
@with_rest
def apply(
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
    """Create missing connectors, update connectors whose config differs, and leave the rest unchanged.

    A file contains one connector: flat JSON or properties with a `name`, or the body of POST /connectors. Its
    `initial_state` (RUNNING, PAUSED, STOPPED) and `initial_offsets` apply only when the connector is created.
    YAML files (.yaml, .yml) have the same content and may contain several documents. Values may be references such as
    ${file:/run/db.properties:password}.

    A failed connector does not stop the others from being applied; all errors are printed. Connectors are deleted only
    with --prune, and only if all files are valid.
    """
    manifests = read_files(paths, recursive=recursive)
    require_connectors(manifests, prunes=prunes)
    live_configs = LiveConfigs(rest)
    results: list[Result] = []
    for result in apply_all(rest, live_configs, manifests.connectors, dry_run=dry_run):
        results.append(result)
        _print_result(result, style, dry_run=dry_run)
    has_failures = bool(manifests.errors) or any(result.action is Action.FAILED for result in results)
    if prunes and manifests.errors:
        print_error("skipping --prune because some files are invalid")
    elif prunes:
        for result in prune(rest, live_configs, manifests.connectors, dry_run=dry_run):
            results.append(result)
            _print_result(result, style, dry_run=dry_run)
            has_failures = has_failures or result.action is Action.FAILED
    if style != "table":
        emit([_as_data(result, dry_run=dry_run) for result in results], style)
    if (
        waits
        and not dry_run
        and not _wait(rest, manifests.connectors, results, timeout_s, quiet=style != "table")
    ):
        has_failures = True
    exit_with_status(succeeded=not has_failures)


def _print_result(result: Result, style: str, *, dry_run: bool) -> None:
    if result.error is not None:
        about = f"{result.file_name}: {result.name}" if result.file_name else result.name
        print_error(KraalError(result.error, hint=result.hint), about=about)
    elif style == "table":
        say(f"{result.name} {result.action}{' (dry run)' if dry_run else ''}")


def _as_data(result: Result, *, dry_run: bool) -> dict[str, Any]:
    return {
        "name": result.name,
        "action": str(result.action),
        "file": result.file_name or None,
        "error": result.error,
        "dry_run": dry_run,
    }


def _wait(
    rest: Rest, manifests: Sequence[Manifest], results: Sequence[Result], timeout_s: float, *, quiet: bool
) -> bool:
    """Wait for the applied connectors; paused or stopped connectors are expected to keep their state."""
    actions = {result.name: result.action for result in results}
    states: dict[str, str] = {}
    for manifest in manifests:
        if actions.get(manifest.name) is Action.CREATED:
            states[manifest.name] = manifest.initial_state or "RUNNING"
        elif actions.get(manifest.name) in (Action.CONFIGURED, Action.UNCHANGED):
            states[manifest.name] = current_target(fetch_one(rest, manifest.name))
    settle_s = {name: SETTLE_S for name in states if actions[name] is Action.CONFIGURED}
    return wait_for(rest, states, settle_s=settle_s, timeout_s=timeout_s, quiet=quiet)
