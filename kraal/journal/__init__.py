"""The journal of a worker: its recent history, in memory and bounded in bytes.

The journal contains states with their causes, earlier configs, log lines by connector, and events. The herder's thread
and a logging handler write to the journal; REST reads it from any thread, without messages. The journal outlives the
herder, but not the process.
"""
