"""Translation of Connect's client settings to the settings of three Kafka client libraries.

    security.py       protocol, certificates and login, read once for all libraries; collects all errors
    ├── jaas.py       sasl.jaas.config
    └── key_stores.py key stores and trust stores, as PEM in memory
    layers.py         precedence: a connector's overrides, the worker's settings for a kind of client, the worker's own
    librdkafka.py     options for confluent-kafka: internal topics, sinks' group members, admin requests
    kafka_python.py   arguments for kafka-python: the group of the workers
    java.py           options for the Java clients inside Spark

Security settings that a library does not support are rejected where the library is used, with an error that names the
allowed values. Other unsupported settings are ignored, some of them with a warning. Errors and logs contain no secrets.
No module in this package imports any of the libraries.
"""
