"""Parsing of requests, and questions to the herder or another worker."""
