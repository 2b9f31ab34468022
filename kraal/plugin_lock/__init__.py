"""Plugins that an operator adds to workers: wheels and jars locked by sha256, stored next to their lock."""
