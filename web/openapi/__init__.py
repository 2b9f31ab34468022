"""Kraal's OpenAPI document: the requests and answers of every endpoint, for clients, generators and fuzzers.

It is written once, as data: `paths` has the operations, `schemas` the shapes. A test compares it with the route
tables: a missing or outdated endpoint fails the build.
"""

from __future__ import annotations

from web.openapi.document import document, routes

__all__ = ["document", "routes"]
