"""A separate Spark cluster for tests and benchmarks."""
