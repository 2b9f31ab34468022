"""Transforms and converters of `plugin.path` for connectors in Python: batches pass through the plugins' JVM."""
