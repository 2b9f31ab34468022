"""Middleware that every request passes through before it reaches its endpoint."""
