"""Control plane: the actors of a worker, and the modules they use."""

__kraal__ = True
"""Mark by which `kraal` recognizes its own package; see kraal/cli/neighbours.py."""
