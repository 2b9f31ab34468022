"""The journal of a worker: what happened on it, as far as this worker saw it, in memory and bounded in bytes.

States with their causes, earlier configs, log lines by connector, and events. The herder's thread and a logging handler
write; REST reads from any thread, without asking an actor. A journal outlives the herder, and ends with the process.
"""
