"""Endpoints, grouped into modules by path."""
