"""Configuration keys: one declaration defines parsing, validation, REST responses and the manual."""
