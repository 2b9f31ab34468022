"""Proofs of delivery for sinks: compares the records of the topics with the rows of the target."""
