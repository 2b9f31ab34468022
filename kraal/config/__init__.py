"""Configuration keys: one declaration gives parsing, validation, the REST answer and the manual."""
