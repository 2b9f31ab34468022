"""Exactly-once support for sources (KIP-618): claims of tasks, and fencing of producers."""
