"""REST API: parses requests, asks actors and renders responses. Contains no decisions, no Kafka and no Spark."""

__kraal__ = True
"""Marker by which `kraal` recognizes its own package; see kraal/cli/neighbours.py."""
