"""Batches of sink tasks."""
