"""Fields computed by expressions in Spark's SQL: what Connect's own transforms lack."""
