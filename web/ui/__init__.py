"""The dashboard: pages for browsers, made from the answers of Connect's REST API alone."""
