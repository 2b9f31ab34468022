"""The ledger: counts of the records of each task by outcome, and the ranges of positions that were counted.

The modules are pure. The engine counts records, and an actor stores the totals after the offsets.
"""
