"""View models: the content of pages, computed from REST responses. Pure: uses neither Starlette nor requests."""
