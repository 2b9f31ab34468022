"""The SQL transform, which computes fields by Spark SQL expressions; not in Connect."""
