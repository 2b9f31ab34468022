"""`kraal doctor`: read-only checks of a worker's requirements, with a remedy for each problem."""
