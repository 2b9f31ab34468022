"""Decisions as pure functions of values: no clock, no I/O, no log."""
