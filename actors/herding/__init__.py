"""Parts of the herder: its state, and one module per kind of request and decision."""
