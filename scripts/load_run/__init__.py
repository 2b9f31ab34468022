"""Load tests that overload a worker and check its responses."""
