"""Foundations for all packages: identifiers, errors, offsets, secrets, logging, files."""
