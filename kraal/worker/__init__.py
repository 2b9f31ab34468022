"""A worker as a process, standalone or distributed."""
