"""Java transforms and converters of Python connectors: batches pass through the plugins' JVM."""
