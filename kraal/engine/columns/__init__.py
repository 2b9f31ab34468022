"""Transforms and converters as Spark column expressions."""
