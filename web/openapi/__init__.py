"""Our own OpenAPI document: what every endpoint takes and answers, for clients, generators and fuzzers.

It is written once, as data: `paths` has the operations, `schemas` the shapes. A test holds it against the route
tables: an endpoint that is not in it, or is no more, fails the build.
"""

from __future__ import annotations

from web.openapi.document import document, routes

__all__ = ["document", "routes"]
