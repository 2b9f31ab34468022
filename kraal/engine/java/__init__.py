"""Java classes that run in Spark's JVM, one per file, in the Java package `kraal`.

Janino compiles them when a session first needs them (`kraal.engine.session.janino`). Janino does not support generics,
so the classes use raw types.
"""
