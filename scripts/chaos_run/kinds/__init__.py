"""Faults beyond signals: hanging targets, moving partitions, overlapping runs, exhausted pools."""
