"""Record by record: decode, transform, encode, and what becomes of records for which that fails.

What is known before a job goes through columns and never comes here. Where a connector has transforms, or says what
to do with errors, a batch goes through one *pass*: a function from Arrow batches to Arrow batches that holds all it
needs and can be pickled. A small batch takes it in the worker, on a job's thread; a large one in Spark's Python
processes (`mapInArrow`). It is the same function, and it imports neither Spark nor a Kafka client.

A pass never raises for a record. It leaves the record out, or stops at it, and says so in the column `note` of rows
of their own: a `Fault` for each dead letter of a sink, a `Summary` at the end. `fates` reads them.
"""
