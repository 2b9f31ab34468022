"""What the client's commands share: options, exit codes, errors, names that complete, output.

Exit codes: 0 done; 1 something failed, or differs; 2 the command line cannot be understood. Results go to standard
output, errors to standard error, a line each; never a traceback, never a secret.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from kraal.client.rest import NoAnswer, Refused, Rest
from kraal.client.target import DEFAULT_URL, BadTarget, Target, parse_target
from kraal.client.text import one_line, printable, table
from kraal.client.yaml_writer import to_yaml
from kraal.errors import KraalError

FAILED = 1
USAGE = 2
EXIT_CODES = "Exit codes: 0 done; 1 something failed; 2 the command line cannot be understood."
CONNECTING = (
    "The worker: --url or KRAAL_URL; user and password in the URL, or in KRAAL_USER and KRAAL_PASSWORD; "
    "a CA for https: --cacert or KRAAL_CACERT."
)
_COMPLETION_S = 2.0


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write command lines into a help text, unwrapped: they are there to be copied."""
    with formatter.section("Examples"):
        for line in examples:
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class _Shown(click.Command):
    """Has examples, and its own exit code for a command line that cannot be understood."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    @override
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as exc:
            exc.show()
            raise click.exceptions.Exit(USAGE) from exc


class ClientCommand(_Shown):
    """A command that ends with the client's exit codes, and says so in its help."""

    trouble = FAILED
    """The exit code when a worker refuses or does not answer."""

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.UsageError, BadTarget) as exc:
            usage = exc if isinstance(exc, click.UsageError) else click.UsageError(str(exc))
            usage.ctx = usage.ctx or ctx
            usage.show()
            raise click.exceptions.Exit(USAGE) from exc
        except KraalError as exc:
            complain(exc)
            raise click.exceptions.Exit(self.trouble) from exc

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)
        asks = any(parameter.name == "url" for parameter in self.params)
        for text in (self.epilog or EXIT_CODES, CONNECTING)[: 2 if asks else 1]:
            formatter.write_paragraph()
            formatter.write_text(text)


class ClientGroup(_Shown, click.Group):
    """A group of such commands."""

    command_class = ClientCommand

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as exc:
            exc.show()
            raise click.exceptions.Exit(USAGE) from exc


class NameType(click.ParamType[str]):
    """A connector's name, which is not empty; completes to those that the worker has."""

    name = "name"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("a connector's name is not empty", param, ctx)
        return str(value)

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[Any]]:
        before = ctx.params.get(param.name or "")
        given = before if isinstance(before, tuple) else ()
        return complete(ctx, incomplete, Rest.names, given)


def complete(
    ctx: click.Context, incomplete: str, ask: Callable[[Rest], Iterable[str]], given: Sequence[str] = ()
) -> list[CompletionItem[Any]]:
    """Complete a word to what a worker has, quickly; to nothing when there is any trouble."""
    try:
        target = parse_target(
            ctx.params.get("url") or os.environ.get("KRAAL_URL") or DEFAULT_URL,
            user=os.environ.get("KRAAL_USER"),
            password=os.environ.get("KRAAL_PASSWORD"),
            cacert=_path(ctx.params.get("cacert") or os.environ.get("KRAAL_CACERT")),
            timeout_s=_COMPLETION_S,
            retry_s=0.0,
        )
        with Rest(target) as rest:
            return [
                CompletionItem(each)
                for each in sorted(ask(rest))
                if each.startswith(incomplete) and each not in given
            ]
    except (KraalError, TypeError):
        return []


def _path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)


NAME = NameType()

name_argument = click.argument("name", type=NAME, metavar="NAME")
names_argument = click.argument("names", type=NAME, nargs=-1, metavar="[NAME]...")

output_option = click.option(
    "-o",
    "--output",
    "style",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print.",
)


def asking(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say whom to ask, and call it with a `Rest` first."""

    @click.option(
        "--url",
        envvar="KRAAL_URL",
        default=DEFAULT_URL,
        show_default=True,
        show_envvar=True,
        help="Any worker's REST API.",
    )
    @click.option(
        "--cacert",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="KRAAL_CACERT",
        show_envvar=True,
        help="PEM file of the authorities to trust, for https.",
    )
    @click.option(
        "--request-timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=100.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for one answer.",
    )
    @functools.wraps(function)
    def run(**options: Any) -> None:
        with Rest(_target(options)) as rest:
            function(rest, **options)

    return run


def _target(options: dict[str, Any]) -> Target:
    """Take what says whom to ask out of a command's options. Raises BadTarget."""
    return parse_target(
        options.pop("url"),
        user=os.environ.get("KRAAL_USER"),
        password=os.environ.get("KRAAL_PASSWORD"),
        cacert=options.pop("cacert"),
        timeout_s=options.pop("request_timeout"),
    )


def complain(error: Exception | str) -> None:
    """Print an error, on one line."""
    click.echo(f"Error: {one_line(str(error))}", err=True)


def say(text: str) -> None:
    """Print a line for people; nothing in it moves the cursor."""
    click.echo(printable(text, keep="\n\t"))


def emit(value: Any, style: str) -> None:
    """Print data as JSON or YAML, without any change."""
    if style == "yaml":
        click.echo(to_yaml(value), nl=False)
        return
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if printable(text, keep="\n") != text:  # then everything beyond ASCII is escaped, as JSON has it
        text = json.dumps(value, indent=2)
    click.echo(text)


def emit_table(head: Sequence[str], rows: Iterable[Sequence[str]], nothing: str) -> None:
    """Print a table, cut to the terminal's width if it is one; without rows, the sentence `nothing`, as an error."""
    laid_out = list(rows)
    if not laid_out:
        click.echo(nothing, err=True)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table(head, laid_out, width):
        click.echo(line)


def for_each(
    names: Iterable[str], act: Callable[[str], None], *, ignore: Callable[[Refused], bool] | None = None
) -> bool:
    """Do something for each connector, whatever becomes of the others; tells whether all went well.

    Errors are printed, but for those that `ignore` says are none. Raises Unreachable at once.
    """
    well = True
    for name in dict.fromkeys(names):
        try:
            act(name)
        except (Refused, NoAnswer) as error:
            if isinstance(error, Refused) and ignore is not None and ignore(error):
                continue
            complain(f"{name}: {error}")
            well = False
    return well


def end(*, well: bool) -> None:
    """End the command with exit code 1 unless all went well."""
    if not well:
        raise click.exceptions.Exit(FAILED)


def chosen(rest: Rest, names: Sequence[str], *, everything: bool) -> list[str]:
    """Return the connectors that a command line means: those named, or all. Raises UsageError."""
    if everything == bool(names):
        raise click.UsageError("Name connectors, or give --all.")
    return rest.names() if everything else list(dict.fromkeys(names))
