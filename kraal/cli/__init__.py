"""The `kraal` command."""
