"""This worker's membership in its group."""
