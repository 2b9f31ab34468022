"""Decisions about one request or one event."""
