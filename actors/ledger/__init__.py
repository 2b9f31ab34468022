"""The keeper of the ledger: stores what tasks have delivered, after their offsets."""
