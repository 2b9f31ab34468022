"""A report of outdated pinned versions, and of the reasons that block upgrades."""
