"""The transforms that ship."""
