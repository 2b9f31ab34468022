"""OpenAPI: what the operations of all endpoints share.

Each endpoint declares its operation beside its handler, in `web.routes`; here are the document's assembly, the named
schemas and the common answers.
"""
