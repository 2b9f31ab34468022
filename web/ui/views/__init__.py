"""View models: the content of pages, computed from answers of the REST API. Pure; no Starlette, no requests."""
