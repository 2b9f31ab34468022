"""Database tables for SparkSource and SparkSink."""
