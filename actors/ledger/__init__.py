"""The keeper of the ledger, which stores what tasks have delivered, after their offsets."""
