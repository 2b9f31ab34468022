"""The converters that are part of Kraal."""
