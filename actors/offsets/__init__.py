"""Source offsets and requests about offsets (KIP-875)."""
