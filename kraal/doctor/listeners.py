"""Checks of the REST API's addresses: free ports, and a reachable advertised host."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from kraal.config.worker.listeners import Listener
from kraal.doctor.finding import Finding, Level, passed
from kraal.doctor.subject import Subject


def check_listeners(subject: Subject) -> Iterator[Finding]:
    """Check the listeners and the advertised URL in the worker's properties file."""
    config = subject.config
    if config is None:
        return
    for listener in dict.fromkeys([*config.listeners, *(config.admin_listeners or ())]):
        yield check_free(listener)
    yield check_advertised(config.advertised_url, is_standalone=subject.distributed is None)


def check_free(listener: Listener) -> Finding:
    """Check, by briefly binding a socket, whether a worker can listen at an address."""
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((listener.host, listener.port))
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            fix = "Ignore this if the worker is running; otherwise stop the other program, or change `listeners`."
            return Finding("listeners.free", Level.WARNING, f"{listener} is in use", fix)
        what = f"Cannot listen on {listener}: {exc.strerror or exc}"
        fix = "Set `listeners` to an address of this machine."
        if exc.errno in (errno.EACCES, errno.EPERM):
            fix = "Set `listeners` to a port of 1024 or higher, or grant the worker CAP_NET_BIND_SERVICE."
        return Finding("listeners.free", Level.ERROR, what, fix)
    return passed("listeners.free", f"{listener} is free")


def check_advertised(url: str, *, is_standalone: bool) -> Finding:
    """Check that the advertised host can be resolved and, for a distributed worker, is not a loopback address."""
    host = urlsplit(url).hostname or ""
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None)}
    except OSError as exc:
        what = f"The advertised host {host} cannot be resolved: {exc.strerror or exc}"
        fix = "Set `rest.advertised.host.name` to a name that all workers can resolve."
        return Finding("listeners.advertised", Level.HINT if is_standalone else Level.ERROR, what, fix)
    if not is_standalone and all(
        ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses
    ):
        what = f"The advertised host {host} is this machine's loopback address, so other machines cannot reach it"
        fix = "Set `rest.advertised.host.name`, unless all workers run on this machine."
        return Finding("listeners.advertised", Level.WARNING, what, fix)
    return passed("listeners.advertised", f"{url} is advertised")
