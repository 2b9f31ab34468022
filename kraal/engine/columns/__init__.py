"""The column path: transforms and converters as Spark column expressions."""
