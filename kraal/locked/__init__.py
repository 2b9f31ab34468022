"""Plugins that an operator adds to workers: wheels and jars, locked by sha256, kept beside their lock."""
