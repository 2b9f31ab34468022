"""`kraal top`: show the metrics of a cluster's tasks, updated in place."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from datetime import datetime

import click

from kraal.client.command import NAME, ClientCommand, interval_option, output_option, with_rest
from kraal.client.output import NO_CONNECTORS, emit
from kraal.client.rest import Clock, Rest
from kraal.client.terminal.keys import Wait, keys
from kraal.client.terminal.screen import Screen
from kraal.client.terminal.top_view import (
    KEYS,
    SORTS,
    Cluster,
    as_data,
    frame,
    parse_cluster,
    task_table,
    worker_sums,
    worker_table,
)
from kraal.client.watch import LatestPoll

_QUIT_KEY = "q"


class Top:
    """Polls and displays a cluster until the user quits. Not thread-safe."""

    def __init__(
        self, poll: Callable[[], Cluster], clock: Clock, interval_s: float, *, sort: str, url: str
    ) -> None:
        """Create the display; `poll` queries the worker and may raise RequestRejected, NoResponse, Unreachable."""
        self._poll = poll
        self._clock = clock
        self._interval_s = interval_s
        self._sort = sort
        self._url = url
        self._latest_poll: LatestPoll[Cluster]

    def run(self, screen: Screen, wait: Wait) -> None:
        """Draw until the user presses `q`. Raises the errors of the first poll."""
        self._latest_poll = LatestPoll(self._poll)
        screen.clear()
        while self._show(screen, wait):
            self._latest_poll.refresh()

    def _show(self, screen: Screen, wait: Wait) -> bool:
        """Show the latest response for one interval; a key changes the order. Return False if the user quits."""
        end_s = self._clock.now() + self._interval_s
        while True:
            columns, lines = screen.size()
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            title = f"{self._url}   every {self._interval_s:g} s   {now}   {_QUIT_KEY} to quit"
            sort = SORTS[self._sort]
            size = {"columns": columns, "lines": lines}
            screen.draw(
                frame(title, self._latest_poll.last, sort, self._latest_poll.problem, **size, colored=True)
            )
            key = wait(max(end_s - self._clock.now(), 0.0))
            if key == _QUIT_KEY:
                return False
            if not key:
                return True
            self._sort = KEYS.get(key, self._sort)


@click.command(
    "top",
    cls=ClientCommand,
    short_help="Show the record rates, backlogs, times and errors of tasks.",
    examples=("kraal top", "kraal top 'orders-*' --sort backlog", "kraal top --once -o json"),
)
@click.argument("patterns", type=NAME, nargs=-1, metavar="[NAME|PATTERN]...")
@output_option
@click.option(
    "--sort", type=click.Choice(list(SORTS)), default="rate", show_default=True, help="Order of the tasks."
)
@click.option("--once", is_flag=True, help="Print the metrics once.")
@interval_option("Polling interval.")
@with_rest
def top(rest: Rest, patterns: tuple[str, ...], *, style: str, sort: str, once: bool, interval: float) -> None:
    """Show the workers of a cluster, and their tasks with records per second, backlogs, times and errors.

    On a terminal, the screen is updated in place: press a letter in the second line to change the order, q or Ctrl-C to
    quit. With --once, with -o json or yaml, and in a file or pipe, the metrics are printed once. Java workers report
    only states. PATTERN may contain * and ?.
    """

    def poll() -> Cluster:
        return parse_cluster(
            rest.get("connectors", query=[("expand", "status"), ("expand", "progress")]), patterns
        )

    if once or style != "table" or not sys.stdout.isatty():
        _print(poll(), sort, style)
        return
    screen = Screen(lambda text: click.echo(text, nl=False), shutil.get_terminal_size)
    try:
        with keys(rest.clock.pause) as wait:
            Top(poll, rest.clock, interval, sort=sort, url=rest.target.url).run(screen, wait)
    except KeyboardInterrupt:
        click.echo()


def _print(cluster: Cluster, sort: str, style: str) -> None:
    if style != "table":
        emit(as_data(cluster, SORTS[sort]), style)
        return
    if not cluster.rows:
        click.echo(NO_CONNECTORS, err=True)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    rows = SORTS[sort].sorted(cluster.rows)
    workers = worker_table(worker_sums(cluster), width, colored=True)
    for line in (*workers, "", *task_table(rows, width, colored=True)):
        click.echo(line)
