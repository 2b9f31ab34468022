"""What flows through plugins: records, schemas, columns."""
