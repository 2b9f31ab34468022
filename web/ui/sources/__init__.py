"""Where the dashboard gets its data: a worker's REST API, in this process or elsewhere."""
