"""A Spark cluster of its own for tests and benchmarks."""
