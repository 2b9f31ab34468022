"""The record path: decode, transform, encode, and the handling of records that fail.

Without transforms and error handling, a batch takes the column path instead. With them, it is processed by a *pass*: a
self-contained function from Arrow batches to Arrow batches, which can be pickled. A small batch is processed in the
worker, on a job thread; a large one in Spark's Python workers (`mapInArrow`). Both use the same function, which imports
neither Spark nor a Kafka client.

A pass never raises for a record. It skips the record, or stops at it, and reports this in the column `note` of
separate rows: a `Fault` for each dead letter of a sink, and a `Summary` at the end. `outcomes` handles them.
"""
