"""Faults other than signals: hanging targets, moving partitions, overlapping runs, exhausted pools."""
