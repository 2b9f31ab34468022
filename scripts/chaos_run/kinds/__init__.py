"""Faults that need more than a signal: targets that hang, partitions that move, runs that overlap, exhausted pools."""
