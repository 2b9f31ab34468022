"""The ledger: counts and checksums of the records of each task, by partition and range of offsets.

`counts` and `totals` are pure. Nothing here reads or writes records; the engine counts them, and an actor stores the
totals after the offsets.
"""
