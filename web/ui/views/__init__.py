"""View models: what pages show, computed from answers of the REST API. Pure; no Starlette, no requests."""
