"""The SQL transform, which computes fields with Spark SQL expressions and does not exist in Connect."""
