"""Middleware that every request passes before its endpoint."""
