"""View models: the content of pages, computed from REST responses. Pure, without Starlette and requests."""
