"""A run that injects a seeded sequence of faults into a real cluster and checks the results."""
