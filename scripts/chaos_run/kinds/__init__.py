"""Faults that require more than a signal, such as hanging targets, overlapping runs and exhausted pools."""
