"""Sinks that write Iceberg and Delta tables."""
