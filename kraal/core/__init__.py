"""Basics for all parts of Kraal: identifiers, errors, offsets, secrets, logging, files."""
