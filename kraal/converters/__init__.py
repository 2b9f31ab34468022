"""The converters that ship."""
