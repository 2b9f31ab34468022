"""`kraal doctor`: read-only checks of a worker's requirements, with a fix for each problem."""
