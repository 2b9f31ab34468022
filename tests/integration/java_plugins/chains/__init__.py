"""A package, so that pytest tears down package-scoped fixtures after the last test in this folder."""
