"""The transforms that are part of Kraal."""
