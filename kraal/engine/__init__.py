"""The data plane: the Spark session, its jobs, and the engine that runs tasks on it."""
