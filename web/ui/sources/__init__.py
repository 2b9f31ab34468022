"""Sources of the dashboard's data: a worker's REST API, in this process or remote."""
