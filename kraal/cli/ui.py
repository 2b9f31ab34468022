"""`kraal ui`: the dashboard for any Connect cluster, over the REST API of one of its workers."""

from __future__ import annotations

import ipaddress
import signal
import threading
import webbrowser
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import click

from kraal.client.command import ClientCommand, with_rest
from kraal.client.output import say
from kraal.client.rest import Rest, create_ssl_context
from kraal.client.target import Target
from web.server import HttpServer, Listener
from web.ui.app import DashboardApp, standalone
from web.ui.options import PREFIX, DashboardOptions
from web.ui.sources.remote import RemoteSource, RemoteTarget

_DEFAULT_LISTEN: Final = "127.0.0.1:8090"
_LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_RESPONSE_REUSE_S: Final = 0.25
"""Time for which browsers share a response, unless the cluster changes."""
_EXAMPLES: Final = (
    "kraal ui --url http://worker:8083 --open",
    "kraal ui --url https://worker:8443 --cacert ca.pem --read-only",
)


@click.command(
    "ui", cls=ClientCommand, short_help="Serve a dashboard for a Connect cluster.", examples=_EXAMPLES
)
@click.option(
    "--listen",
    default=_DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Address at which to serve the dashboard; port 0 selects any free port.",
)
@click.option(
    "--host",
    "extra_hosts",
    multiple=True,
    metavar="NAME",
    help="Additional host name under which browsers may access the dashboard (repeatable).",
)
@click.option("--read-only", is_flag=True, help="Hide and reject all actions.")
@click.option(
    "--allow-anyone",
    is_flag=True,
    help="Let any client that can reach a non-loopback address act with your credentials.",
)
@click.option("--open", "opens_browser", is_flag=True, help="Open the dashboard in a browser.")
@with_rest
def ui(
    rest: Rest,
    listen: str,
    extra_hosts: tuple[str, ...],
    *,
    read_only: bool,
    allow_anyone: bool,
    opens_browser: bool,
) -> None:
    """Serve a dashboard for a Connect cluster, Kraal's or Apache Kafka's, until interrupted.

    The dashboard uses your credentials for every user, so by default it is only accessible from this machine.
    """
    host, port = _parse_address(listen)
    if not (_is_loopback(host) or read_only or allow_anyone):
        raise click.UsageError(
            f"Any client that can reach {listen} could act with your credentials; add --read-only or --allow-anyone."
        )
    server = HttpServer([Listener(host, port)], graceful_s=2, allow_asyncio_loop=True, setting="--listen")
    bound_port = server.bound_listeners[0].port
    app = DashboardApp(
        RemoteSource(_remote_target(rest.target)),
        _options(rest.target, host, extra_hosts, read_only),
        keep_s=_RESPONSE_REUSE_S,
    )
    stop_requested = threading.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: stop_requested.set())
    server.start(standalone(app))
    address = f"http://{_format_host(host)}:{bound_port}{PREFIX}/"
    say(f"The dashboard of {rest.target.url} is at {address}")
    if opens_browser:
        webbrowser.open(address)
    stop_requested.wait()
    app.close_streams()
    server.stop()


def _remote_target(target: Target) -> RemoteTarget:
    password = "" if target.password is None else target.password.value
    return RemoteTarget(
        url=target.url,
        auth=None if target.user is None else (target.user, password),
        trust=create_ssl_context(target) if target.url.startswith("https:") else None,
        timeout_s=target.timeout_s,
        retry_s=target.retry_s,
    )


def _options(target: Target, host: str, extra_hosts: Iterable[str], read_only: bool) -> DashboardOptions:  # noqa: FBT001
    return DashboardOptions(
        worker=target.url.partition("://")[2],
        rest_url=target.url,
        read_only=read_only,
        allowed_hosts=_LOOPBACK_HOSTS | {name.lower() for name in (host, *extra_hosts)},
    )


def _parse_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`. Raises UsageError."""
    error = click.UsageError(f"Invalid --listen '{text}'; expected HOST:PORT, such as {_DEFAULT_LISTEN}.")
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise error from exc
    if not host or port is None or parts.netloc != text or parts.username is not None:
        raise error
    return host, port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _format_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
