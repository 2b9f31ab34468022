"""Shared parts of the converters with a schema registry: client, wire format and subject names."""
