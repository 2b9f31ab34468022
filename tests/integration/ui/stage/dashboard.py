"""A dashboard that is served over a socket, for a source that a test creates."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from kraal.broker.broker import free_port
from scripts.harness.processes import wait_until
from web.ui.app import DashboardApp, standalone
from web.ui.options import DashboardOptions
from web.ui.sources.api import Source


@contextmanager
def dashboard(source: Source) -> Iterator[str]:
    """Serve a dashboard, and yield its URL without `/ui`. Closes the streams at the end. Raises ScriptFailed."""
    port = free_port()
    app = DashboardApp(source, DashboardOptions(worker="worker:8083"))
    server = uvicorn.Server(uvicorn.Config(standalone(app), port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_until("the dashboard listened", lambda: server.started, timeout_s=10, every_s=0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        app.close_streams()
        server.should_exit = True
        thread.join()
