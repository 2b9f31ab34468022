"""Writes the project of a new connector, with a test that runs."""
