"""REST API: parse a request, ask an actor, render its answer. No decisions, no Kafka, no Spark."""

__kraal__ = True
"""Mark by which `kraal` recognizes its own package; see kraal/cli/neighbours.py."""
