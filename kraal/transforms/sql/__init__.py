"""The SQL transform, which computes fields by Spark SQL expressions and does not exist in Connect."""
