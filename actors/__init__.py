"""Control plane: the actors of a worker, and the modules that they use."""

__kraal__ = True
"""Marker by which `kraal` recognizes its own package; see kraal/cli/neighbours.py."""
