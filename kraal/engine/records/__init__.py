"""The record path: decode, transform, encode, and the handling of records that fail.

Without transforms and error handling, a batch takes the column path instead. With them, it is processed by a *pass*: a
self-contained function from Arrow batches to Arrow batches, which can be pickled. A small batch is processed in the
worker, on a job thread; a large one in Spark's Python workers (`mapInArrow`). Both use the same function, which imports
neither Spark nor a Kafka client.

A pass does not raise an exception for a record that fails. The pass skips the record, or stops at it, and reports the
failure in the column `note` of separate rows: a `Fault` for each dead letter of a sink, and a `Summary` at the end.
`outcomes` handles the summary.
"""
