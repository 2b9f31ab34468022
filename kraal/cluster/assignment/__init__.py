"""Assignment of connectors and tasks to workers by the group's leader."""
