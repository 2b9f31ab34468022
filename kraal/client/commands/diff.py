"""`kraal diff`: show what `kraal apply` would change."""

from __future__ import annotations

from typing import Any

import click

from kraal.client.apply import LiveConfigs, Secrets
from kraal.client.command import (
    ClientCommand,
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
from kraal.client.output import emit, emit_diff, print_error
from kraal.client.plan import Action, action_for, changed_keys, difference
from kraal.client.rest import NoResponse, RequestRejected, Rest

DIFFERENCE_EXIT_CODE = 1


ERROR_EXIT_CODE = 2


_EXIT_CODES = (
    "Exit codes: 0 no differences; 1 differences found; 2 invalid usage, or failed to read a file or worker."
)


class DiffCommand(ClientCommand):
    """Command that exits with 2 on errors, like diff(1), because 1 means that there are differences."""

    error_exit_code = ERROR_EXIT_CODE


@click.command(
    "diff",
    cls=DiffCommand,
    short_help="Show what `kraal apply` would change.",
    epilog=_EXIT_CODES,
    examples=("kraal diff -f connectors/ || kraal apply -f connectors/",),
)
@files_option
@recursive_option
@prune_option
@output_option
@with_rest
def diff(rest: Rest, paths: tuple[str, ...], *, recursive: bool, prunes: bool, style: str) -> None:
    """Show what `kraal apply` of the same files would change, as a unified diff.

    Lines with - show the config on the worker, and lines with + the config in the files. Secrets are printed as
    [hidden] and marked if they differ. With --prune, connectors that are not in the files are shown as deleted. With -o
    json or yaml, prints the connectors that differ, with the old and new values of each key that differs.
    """
    manifests = read_files(paths, recursive=recursive)
    require_connectors(manifests, prunes=prunes)
    live_configs, secrets = LiveConfigs(rest), Secrets(rest)
    differences: list[dict[str, Any]] = []
    has_errors = bool(manifests.errors)
    for manifest in manifests.connectors:
        try:
            config, secret_keys = live_configs.config(manifest.name), secrets.keys_of(manifest.config)
        except (RequestRejected, NoResponse) as error:
            print_error(error, about=manifest.name)
            has_errors = True
            continue
        action = action_for(config, manifest.config)
        if action is not Action.UNCHANGED:
            changes = changed_keys(config, manifest.config, secret_keys)
            differences.append(
                {"name": manifest.name, "action": action, "file": manifest.file_name, "keys": changes}
            )
        if style == "table":
            titles = f"{manifest.name} at {rest.target.url}", f"{manifest.name} in {manifest.file_name}"
            emit_diff(difference((titles[0], config), (titles[1], manifest.config), secret_keys))
    if prunes and not manifests.errors:
        names_in_files = {manifest.name for manifest in manifests.connectors}
        for name in (name for name in live_configs.names if name not in names_in_files):
            config = live_configs.config(name) or {}
            secret_keys = secrets.keys_of(config)
            changes = changed_keys(config, None, secret_keys)
            differences.append({"name": name, "action": Action.DELETED, "file": None, "keys": changes})
            if style == "table":
                titles = f"{name} at {rest.target.url}", f"{name} (in no file)"
                emit_diff(difference((titles[0], config), (titles[1], None), secret_keys))
    if style != "table":
        emit([{**entry, "action": str(entry["action"])} for entry in differences], style)
    if has_errors or differences:
        raise click.exceptions.Exit(ERROR_EXIT_CODE if has_errors else DIFFERENCE_EXIT_CODE)
