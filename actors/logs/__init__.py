"""Readers and writers of the internal logs: one pair for configs, one for statuses."""
