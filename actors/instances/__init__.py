"""Parts of the connector and task actors."""
