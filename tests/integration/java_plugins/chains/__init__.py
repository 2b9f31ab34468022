"""A package, so that pytest ends fixtures of its scope after the last test of this folder."""
