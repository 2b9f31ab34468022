"""Jars that Kraal uses, and the Java runtime for them."""
