"""Shared parts of the transforms."""
