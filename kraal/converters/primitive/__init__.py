"""Converters for strings, numbers, booleans and bytes."""
