"""Proofs of delivery: the comparison of a sink's topics with its target, and its result. Pure."""
