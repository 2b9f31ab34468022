"""Base classes, common options, exit codes, error handling and name completion of the client's commands.

Exit codes: 0 success; 1 failure, or differences found; 2 invalid usage. Results are written to standard output, errors
to standard error, one line each. Tracebacks and secrets are never printed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from kraal.client.lazy import LazyCommand
from kraal.client.output import print_error
from kraal.client.rest import NoResponse, RequestRejected, Rest
from kraal.client.target import DEFAULT_URL, InvalidTarget, Target, parse_target
from kraal.core.errors import KraalError

FAILURE_EXIT_CODE = 1
EXIT_CODES = "Exit codes: 0 success; 1 failure; 2 invalid usage."
CONNECTION_HELP = (
    "Set the worker with --url or KRAAL_URL, user and password in the URL or with KRAAL_USER and KRAAL_PASSWORD, "
    "and trusted CA certificates for https with --cacert or KRAAL_CACERT."
)
_COMPLETION_TIMEOUT_S = 2.0


def write_examples(formatter: click.HelpFormatter, examples: Sequence[str]) -> None:
    """Write example command lines without wrapping, so that users can copy them."""
    with formatter.section("Examples"):
        for line in examples:
            formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class _CommandWithExamples(click.Command):
    """Command with examples in its help."""

    def __init__(self, *args: Any, examples: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples


class ClientCommand(_CommandWithExamples):
    """Command that uses the client's exit codes and documents them in its help."""

    error_exit_code = FAILURE_EXIT_CODE
    """Exit code when a worker rejects a request or does not respond."""

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as exc:
            exc.ctx = exc.ctx or ctx
            raise
        except InvalidTarget as exc:
            raise click.UsageError(str(exc), ctx) from exc
        except KraalError as exc:
            print_error(exc)
            raise click.exceptions.Exit(self.error_exit_code) from exc

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)
        has_url = any(parameter.name == "url" for parameter in self.params)
        for text in (self.epilog or EXIT_CODES, CONNECTION_HELP)[: 2 if has_url else 1]:
            formatter.write_paragraph()
            formatter.write_text(text)


class ClientGroup(_CommandWithExamples, click.Group):
    """Group of client commands."""

    command_class = ClientCommand

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(formatter, self.examples)


class NameType(click.ParamType[str]):
    """Parameter type for a non-empty connector name, with completion from the worker's connectors."""

    name = "name"

    @override
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value:
            self.fail("connector name must not be empty", param, ctx)
        return str(value)

    @override
    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[Any]]:
        previous = ctx.params.get(param.name or "")
        used_names = previous if isinstance(previous, tuple) else ()
        return complete(ctx, incomplete, Rest.names, used_names)


def complete(
    ctx: click.Context,
    incomplete: str,
    fetch_words: Callable[[Rest], Iterable[str]],
    used_words: Sequence[str] = (),
) -> list[CompletionItem[Any]]:
    """Return completions of `incomplete` from the worker's words; none after any error."""
    try:
        target = parse_target(
            ctx.params.get("url") or os.environ.get("KRAAL_URL") or DEFAULT_URL,
            user=os.environ.get("KRAAL_USER"),
            password=os.environ.get("KRAAL_PASSWORD"),
            cacert=_to_path(ctx.params.get("cacert") or os.environ.get("KRAAL_CACERT")),
            timeout_s=_COMPLETION_TIMEOUT_S,
            retry_s=0.0,
        )
        with Rest(target) as rest:
            return [
                CompletionItem(word)
                for word in sorted(fetch_words(rest))
                if word.startswith(incomplete) and word not in used_words
            ]
    except (KraalError, TypeError):
        return []


def _to_path(value: str | Path | None) -> Path | None:
    return None if value is None else Path(value)


NAME = NameType()

Option = Callable[[Callable[..., None]], Callable[..., None]]
"""Decorator that adds an option to a command."""

name_argument = click.argument("name", type=NAME, metavar="NAME")
names_argument = click.argument("names", type=NAME, nargs=-1, metavar="[NAME]...")

all_option = click.option("--all", "everything", is_flag=True, help="Select all connectors.")


def make_output_option(*formats: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option for the output format, with these formats; the first one is the default."""
    return click.option(
        "-o",
        "--output",
        "style",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output format.",
    )


output_option = make_output_option("table", "json", "yaml")


def with_rest(function: Callable[..., None]) -> Callable[..., None]:
    """Add the connection options to a command, and pass a `Rest` to it as the first argument."""

    @click.option(
        "--url",
        envvar="KRAAL_URL",
        default=DEFAULT_URL,
        show_default=True,
        show_envvar=True,
        help="REST API URL of any worker in the cluster.",
    )
    @click.option(
        "--cacert",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="KRAAL_CACERT",
        show_envvar=True,
        help="PEM file with trusted CA certificates for https.",
    )
    @click.option(
        "--request-timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=100.0,
        show_default=True,
        metavar="SECONDS",
        help="Timeout of a single request.",
    )
    @functools.wraps(function)
    def run(**options: Any) -> None:
        with Rest(_pop_target(options)) as rest:
            function(rest, **options)

    return run


def seconds_option(flag: str, name: str, *, minimum: float, default: float, help_text: str) -> Option:
    """Return an option for a duration of at least `minimum` seconds, passed to the command as `name`."""
    return click.option(
        flag,
        name,
        type=click.FloatRange(min=minimum),
        default=default,
        show_default=True,
        metavar="SECONDS",
        help=help_text,
    )


def interval_option(help_text: str) -> Option:
    """Return the option `--interval` for a command's polling interval."""
    return seconds_option("--interval", "interval", minimum=0.1, default=2.0, help_text=help_text)


def _pop_target(options: dict[str, Any]) -> Target:
    """Remove the connection options from a command's options and parse them. Raises InvalidTarget."""
    return parse_target(
        options.pop("url"),
        user=os.environ.get("KRAAL_USER"),
        password=os.environ.get("KRAAL_PASSWORD"),
        cacert=options.pop("cacert"),
        timeout_s=options.pop("request_timeout"),
    )


def for_each(
    names: Iterable[str],
    act: Callable[[str], None],
    *,
    ignore: Callable[[RequestRejected], bool] | None = None,
) -> bool:
    """Call `act` for each connector and continue after errors; return whether all calls succeeded.

    Prints all errors except those for which `ignore` returns True. Raises Unreachable immediately.
    """
    succeeded = True
    for name in dict.fromkeys(names):
        try:
            act(name)
        except (RequestRejected, NoResponse) as error:
            if isinstance(error, RequestRejected) and ignore is not None and ignore(error):
                continue
            print_error(error, about=name)
            succeeded = False
    return succeeded


def exit_with_status(*, succeeded: bool) -> None:
    """Exit with code 1 unless everything succeeded."""
    if not succeeded:
        raise click.exceptions.Exit(FAILURE_EXIT_CODE)


def select_names(rest: Rest, names: Sequence[str], *, everything: bool) -> list[str]:
    """Return the connectors selected by names or --all. Raises UsageError unless exactly one is specified."""
    if everything == bool(names):
        raise click.UsageError("Specify connector names or --all.")
    return rest.names() if everything else list(dict.fromkeys(names))


class CommandWithSubcommands(ClientCommand):
    """Command that dispatches to a lazily imported subcommand if its first argument names one."""

    subcommands: ClassVar[Mapping[str, LazyCommand]]

    @override
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        lazy = self.subcommands.get(args[0]) if args else None
        if lazy is None:
            return super().make_context(info_name, args, parent, **extra)
        return lazy.load().make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
