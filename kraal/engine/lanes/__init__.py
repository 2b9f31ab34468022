"""Lanes: long-running Spark tasks that send small batches of sources to Kafka without a job for each batch."""
