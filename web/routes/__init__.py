"""Endpoints, one module per group of paths."""
