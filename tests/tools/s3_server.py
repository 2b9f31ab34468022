"""Runs moto's server with one request at a time; the arguments are those of `moto.server`.

Its threads would otherwise check the condition of a PUT request (`If-None-Match`) and store the object in two steps, so
that two writers could both create the same object. Runs in the environment of `tests/s3-server.lock`.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto import server  # type: ignore[import-not-found]  # in another environment

_LOCK = threading.Lock()
_Dispatcher = server.DomainDispatcherApplication


def make_application(create_backend: Any) -> Any:
    """Return moto's application, which handles one request at a time."""
    application = _Dispatcher(create_backend)

    def respond(environ: Any, start_response: Any) -> Any:
        with _LOCK:
            return application(environ, start_response)

    return respond


if __name__ == "__main__":
    server.DomainDispatcherApplication = make_application
    server.main(sys.argv[1:])
