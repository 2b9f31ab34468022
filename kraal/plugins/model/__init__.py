"""Data passed through plugins: records, schemas, columns."""
