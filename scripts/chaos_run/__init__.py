"""Injects faults into a real cluster by a seed, and checks the results."""
