"""The dashboard: pages for browsers, rendered only from responses of Connect's REST API."""
