"""Parsing of requests, and calls to the herder or another worker."""
