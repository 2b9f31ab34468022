"""Translation of Connect's client settings to those of three Kafka client libraries.

    security.py       protocol, certificates and login, read once for all libraries; collects all errors
    ├── jaas.py       sasl.jaas.config
    └── key_stores.py key stores and trust stores, as PEM in memory
    layers.py         precedence of settings: the worker's, those of the kind of client, a connector's overrides
    librdkafka.py     options for confluent-kafka: internal topics, sinks' group members, admin requests
    kafka_python.py   arguments for kafka-python: the group of the workers
    java.py           options for the Java clients inside Spark

Settings that a library does not support are rejected where it is used, with an error that names allowed values.
Secrets appear in no error and in no log. No module here imports any of the libraries.
"""
