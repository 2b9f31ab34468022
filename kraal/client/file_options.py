"""Options of commands that read connector files."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from kraal.client.manifests import STDIN, SUFFIXES, Manifests, read_manifests
from kraal.client.output import print_error
from kraal.core.errors import BadRequest

files_option = click.option(
    "-f",
    "--file",
    "paths",
    required=True,
    multiple=True,
    metavar="FILE_OR_DIR",
    help=f"Connector file, directory with connector files ({', '.join(SUFFIXES)}), or "
    f"{STDIN} for standard input (repeatable).",
)


recursive_option = click.option("-R", "--recursive", is_flag=True, help="Read directories recursively.")


prune_option = click.option(
    "--prune", "prunes", is_flag=True, help="Also DELETE all connectors that are not in the files."
)


def read_files(paths: Sequence[str], *, recursive: bool) -> Manifests:
    """Read all files and print their errors."""
    manifests = read_manifests(paths, sys.stdin, recursive=recursive)
    for error in manifests.errors:
        print_error(error)
    return manifests


def require_connectors(manifests: Manifests, *, prunes: bool) -> None:
    """Raise BadRequest if the files contain no connectors; without --prune, only if no errors were printed."""
    if not manifests.connectors and (prunes or not manifests.errors):
        consequence = "; --prune would delete every connector" if prunes else ""
        raise BadRequest(f"No connectors found in the files{consequence}.")
