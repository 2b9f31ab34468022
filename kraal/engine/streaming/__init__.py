"""Source tasks in real-time mode, and Spark sources that support only streaming reads."""
