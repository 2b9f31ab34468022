"""Lists outdated pinned versions, and the reasons."""
