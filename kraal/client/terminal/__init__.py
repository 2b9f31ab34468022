"""What the client shows on terminals: screens drawn in place, keys, and views."""
