"""SparkSource and SparkSink."""
