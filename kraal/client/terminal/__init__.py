"""Terminal output of the client: screens drawn in place, keys, and views."""
