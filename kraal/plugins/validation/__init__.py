"""Validation of connectors' configs."""
