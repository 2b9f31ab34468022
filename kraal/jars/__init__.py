"""Jars that Kraal runs with, and the Java that runs them."""
