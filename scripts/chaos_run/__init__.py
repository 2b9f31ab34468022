"""A run that injects faults, determined by a seed, into a real cluster and checks the results."""
