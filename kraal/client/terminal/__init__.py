"""Terminal output of the client: screens updated in place, keys, and views."""
