"""Runs moto's server for S3 and Glue, with conditional writes; the arguments are those of `moto.server`.

The server handles one request at a time. Its threads would otherwise check the condition of a PUT request
(`If-None-Match`) and store the object in two steps, so that two writers could both create the same object. moto also
ignores the condition of an update of a table in Glue (`VersionId`), so it is checked here. Runs in the environment of
`tests/s3-server.lock`.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from moto import server  # type: ignore[import-not-found]  # in another environment
from moto.glue.exceptions import GlueClientError  # type: ignore[import-not-found]
from moto.glue.responses import GlueResponse  # type: ignore[import-not-found]

_LOCK = threading.Lock()
_Dispatcher = server.DomainDispatcherApplication
_update_table = GlueResponse.update_table


def make_application(create_backend: Any) -> Any:
    """Return moto's application, which handles one request at a time."""
    application = _Dispatcher(create_backend)

    def respond(environ: Any, start_response: Any) -> Any:
        with _LOCK:
            return application(environ, start_response)

    return respond


def update_table(response: Any) -> Any:
    """Update a table of Glue if it has the version that the request names."""
    database, name = response.parameters["DatabaseName"], response.parameters["TableInput"]["Name"]
    expected = response.parameters.get("VersionId")
    if expected not in {None, response.glue_backend.get_table(database, name).as_dict()["VersionId"]}:
        raise GlueClientError("ConcurrentModificationException", f"{name} does not have version {expected}.")
    return _update_table(response)


if __name__ == "__main__":
    server.DomainDispatcherApplication = make_application
    GlueResponse.update_table = update_table
    server.main(sys.argv[1:])
