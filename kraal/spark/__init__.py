"""The data plane: the Spark session, its jobs, and the engines that run tasks on it."""
