"""The connectors that ship."""
