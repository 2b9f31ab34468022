"""The transforms that ship with Kraal."""
