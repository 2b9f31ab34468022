"""JDBC tables for SparkSource and SparkSink."""
