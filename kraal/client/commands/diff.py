"""`kraal diff`: show what `kraal apply` would change."""

from __future__ import annotations

import click

from kraal.client.apply import Live, Secrets
from kraal.client.command import (
    ClientCommand,
    asking,
)
from kraal.client.file_options import (
    files_option,
    prune_option,
    read_files,
    recursive_option,
    refuse_nothing,
)
from kraal.client.output import emit_diff, print_error
from kraal.client.plan import Action, action_for, difference
from kraal.client.rest import NoAnswer, Refused, Rest

DIFFERS = 1


DIFF_TROUBLE = 2


_DIFF_CODES = (
    "Exit codes: 0 no differences; 1 differences found; 2 invalid usage, or failed to read a file or worker."
)


class DiffCommand(ClientCommand):
    """Command that exits with 2 on errors, as diff(1) does, because 1 means that differences were found."""

    trouble = DIFF_TROUBLE


@click.command(
    "diff",
    cls=DiffCommand,
    short_help="Show what `kraal apply` would change.",
    epilog=_DIFF_CODES,
    examples=("kraal diff -f connectors/ || kraal apply -f connectors/",),
)
@files_option
@recursive_option
@prune_option
@asking
def diff(rest: Rest, paths: tuple[str, ...], *, recursive: bool, prunes: bool) -> None:
    """Show what `kraal apply` of the same files would change, as a unified diff.

    Lines with - show the config on the worker, lines with + the config in the files. Secrets are printed as [hidden]
    and marked if they differ. With --prune, connectors that are not in the files are shown as deleted.
    """
    wants = read_files(paths, recursive=recursive)
    refuse_nothing(wants, prunes=prunes)
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
            print_error(error, about=each.name)
            trouble = True
            continue
        differs = differs or action_for(config, each.config) is not Action.UNCHANGED
        emit_diff(lines)
    if prunes and not wants.faults:
        kept = {each.name for each in wants.wanted}
        for name in (name for name in live.names if name not in kept):
            config = live.config(name) or {}
            titles = f"{name} at {rest.target.url}", f"{name} in no file"
            emit_diff(difference((titles[0], config), (titles[1], None), secrets.of(config)))
            differs = True
    if trouble or differs:
        raise click.exceptions.Exit(DIFF_TROUBLE if trouble else DIFFERS)
