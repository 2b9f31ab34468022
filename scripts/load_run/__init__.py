"""Overloads a worker, and checks its responses."""
