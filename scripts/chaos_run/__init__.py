"""Hurts a real cluster by a seed, and judges what became of it."""
