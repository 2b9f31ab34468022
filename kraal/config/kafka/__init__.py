"""What users say of Kafka's clients, in Connect's words, and what three libraries are told of it.

    security.py       protocol, certificates and login, read once for all libraries; every error at once
    ├── jaas.py       sasl.jaas.config
    └── stores.py     key stores and trust stores, as PEM in memory
    layers.py         whose settings hold for a client: the worker's, those of its kind, a connector's overrides
    librdkafka.py     options for confluent-kafka: internal topics, sinks' group members, questions to Kafka
    kafka_python.py   arguments for kafka-python: the workers' own group
    java.py           options for the Java clients inside Spark

What a library cannot do is refused where that library is used, with a sentence that says what is allowed.
Secrets appear in no error and in no log. No module here imports any of the libraries.
"""
