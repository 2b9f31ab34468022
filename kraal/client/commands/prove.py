"""`kraal prove`: prove that all records of a connector were delivered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import click

from kraal.client.command import NAME, ClientCommand, output_option, with_rest
from kraal.client.output import emit, print_error, say
from kraal.client.rest import RequestRejected, Rest
from kraal.core.errors import KraalError
from kraal.core.progress import Progress
from kraal.proof.result import RUNNING, Verdict, format_lines

_FIRST_POLL_S: Final = 0.1
_MAX_POLL_S: Final = 2.0
_MAX_OTHER_S: Final = 30.0
"""Maximum time for which responses may contain another proof."""
_MS_PER_SECOND: Final = 1000
_COUNTS: Final = {
    "read": "read",
    "written": "written",
    "dropped": "dropped",
    "dead_letters": "dead letters",
    "tolerated": "tolerated errors",
    "break_count": "batches whose records are not all accounted for",
}
"""Totals of the ledger, and their names for users."""
_EXIT_CODES: Final = {Verdict.PROVED: 0, Verdict.DIFFERENT: 1, Verdict.UNDECIDED: 2}


class _ProveCommand(ClientCommand):
    """A command whose failure differs from a proof that finds differences."""

    error_exit_code = 2


@click.command(
    "prove",
    cls=_ProveCommand,
    short_help="Prove that all records of a connector were delivered.",
    epilog="Exit codes: 0 proved, 1 records differ, 2 records could not be compared or the request failed.",
    examples=(
        "kraal prove orders-sink",
        "kraal prove orders-sink --since 2026-11-27T00:00:00",
        "kraal prove orders-sink --sample 5",
        "kraal prove orders-sink -o json",
    ),
)
@click.argument("name", type=NAME, metavar="NAME")
@click.option(
    "--since",
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
    help="Compare only records of a sink from this time (UTC).",
)
@click.option(
    "--sample",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="PERCENT",
    help="Compare only this share of the records of each partition of a sink, at a random position.",
)
@output_option
@with_rest
def prove(rest: Rest, name: str, *, since: datetime | None, sample: float | None, style: str) -> None:
    """Compare the topics of a sink with its target, or the records of a source with its topics.

    A worker applies the converters and transforms of the connector to the records of the topics or of the source, and
    compares the result with the target or the topics. Shows the number of missing, repeated and unexpected records,
    and their positions. The connector may be running. Targets: files of FileStreamSink and SparkSink, and tables of
    SparkSink, IcebergSink, DeltaSink and Debezium's JDBC sink. Sources: FileStreamSource, SparkSource, MirrorSource,
    VerifiableSource, and tables of Debezium's PostgreSQL source. For others, shows what the ledger has counted.
    """
    query: list[tuple[str, str]] = []
    if since is not None:
        query.append(("since", str(int(since.replace(tzinfo=UTC).timestamp()) * _MS_PER_SECOND)))
    if sample is not None:
        query.append(("sample", f"{sample:.15f}".rstrip("0").rstrip(".")))
    state = _wait(rest, name, _start(rest, name, query))
    verdict = Verdict(state["state"])
    if style != "table":
        emit(state, style)
    elif state["result"] is None:
        print_error(f"{name} could not be proved: {state['reason']}")
        _show_counts(rest, name)
    else:
        for line in format_lines(state):
            say(line)
    if code := _EXIT_CODES[verdict]:
        raise click.exceptions.Exit(code)


def _start(rest: Rest, name: str, query: list[tuple[str, str]]) -> dict[str, Any]:
    try:
        state: dict[str, Any] = rest.ask("POST", "connectors", name, "proof", query=query)
    except RequestRejected as error:
        if error.is_unknown_endpoint:
            raise KraalError(
                f"{error}; this worker does not run proofs: it is not a Kraal worker, or an older one"
            ) from error
        raise
    return state


def _show_counts(rest: Rest, name: str) -> None:
    """Show what the ledger has counted, if there is one: all that can be said without a comparison."""
    try:
        tasks = rest.get("connectors", name, "ledger")["tasks"]
    except RequestRejected:
        return
    counts = {count: sum(task[count] for task in tasks) for count in _COUNTS}
    say(
        "ledger: "
        + ", ".join(f"{value:,} {_COUNTS[count]}" for count, value in counts.items())
        + f". `kraal ledger {name}` shows the positions"
    )


def _wait(rest: Rest, name: str, started: dict[str, Any]) -> dict[str, Any]:
    """Poll the proof that was started until it ends; return its state.

    Behind a load balancer, another worker may respond with an earlier proof while the worker of this proof is busy.
    """
    state, poll_s, other_s = started, _FIRST_POLL_S, 0.0
    with Progress(f"Proving {name}"):
        while state["state"] == RUNNING or state["started_ms"] != started["started_ms"]:
            rest.clock.pause(poll_s)
            other_s = 0.0 if state["started_ms"] == started["started_ms"] else other_s + poll_s
            if other_s > _MAX_OTHER_S:
                raise KraalError(
                    f"{rest.target.url} responds with another proof of {name} than the one that was started; use the "
                    "URL of one worker (--url) instead of that of a load balancer"
                )
            poll_s = min(_MAX_POLL_S, poll_s * 2)
            state = rest.get("connectors", name, "proof")
    return state
