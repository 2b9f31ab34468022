"""The connectors that ship with Kraal."""
