"""Batches of source tasks."""
