"""OpenAPI: code and schemas that the operations of all endpoints share.

Each endpoint declares its operation beside its handler, in `web.routes`; this package assembles the document
and defines the named schemas and the common responses.
"""
