"""Descriptions of the settings of Kafka's clients, and the reasons why some settings have no effect.

Producers are Java clients in Spark. A sink's records are read by Java consumers in Spark; its group member uses
librdkafka. Admin clients use librdkafka; the members of a cluster's group use kafka-python.
"""

from __future__ import annotations

from functools import cache
from typing import Final

# One key per line: its name and description. A backslash continues the line.
_TEXTS: Final = """\
acks Number of replicas that must store a record before the write succeeds: none (0), the leader (1), or all in \
sync (all).
allow.auto.create.topics Whether the broker may create a topic that the client requests.
auto.commit.interval.ms Interval between the consumer's automatic commits, in milliseconds.
auto.offset.reset Where to start if a partition has no committed offset, or its offset no longer exists: earliest, \
latest, by_duration:PT1H (the records of the last hour; any ISO-8601 duration), or none, which fails. With latest, \
records that a new partition receives before the consumer discovers it are skipped; by_duration with more than \
metadata.max.age.ms reads them.
batch.size Maximum size of a batch of records for one partition, in bytes.
bootstrap.controllers Addresses HOST:PORT of controllers to connect to instead of brokers.
bootstrap.resolve.timeout.ms Maximum time for resolving bootstrap.servers in the background, in milliseconds; \
0: they are resolved when the client is created (KIP-909).
bootstrap.servers Addresses HOST:PORT of brokers for the initial connection; default: the worker's.
buffer.memory Memory for records that wait to be sent, in bytes.
buffer.memory.allocation.strategy How the producer allocates memory for a batch: batch.size at once (full), or \
as records are added (incremental).
check.crcs Whether to verify the checksum of every batch that is read.
client.dns.lookup How to resolve a broker's host name: try all its addresses, or resolve its canonical names first.
client.id Name of the client in the brokers' logs, metrics and quotas.
client.rack Rack of the client; consumers in a rack can read from the nearest replica.
compression.gzip.level Compression level of gzip; -1: gzip's default.
compression.lz4.level Compression level of lz4.
compression.type Compression of batches: none, gzip, snappy, lz4 or zstd.
compression.zstd.level Compression level of zstd.
config.providers Names of providers that resolve variables in the client's own settings.
connections.max.idle.ms Milliseconds after which an idle connection is closed.
default.api.timeout.ms Timeout of calls without a specific timeout, in milliseconds.
delivery.timeout.ms Maximum time until a sent record is written or has failed, including retries, in milliseconds.
enable.auto.commit Whether the consumer commits offsets automatically.
enable.idempotence Whether each record is written exactly once in spite of retries.
enable.metrics.push Whether the client sends its metrics to brokers that request them (KIP-714).
exclude.internal.topics Whether a topic pattern excludes Kafka's internal topics.
fetch.max.bytes Maximum size of a fetch response over all partitions, in bytes.
fetch.max.wait.ms Maximum time that a broker waits for fetch.min.bytes, in milliseconds.
fetch.min.bytes Minimum size of a fetch response, in bytes; brokers wait until this much data is available.
group.id Consumer group; default: connect- and the connector's name.
group.instance.id Static member id; a member that restarts with the same id keeps its partitions.
group.protocol Protocol of the group: classic, or consumer (KIP-848).
group.remote.assignor Assignor that the brokers use in a group of protocol consumer.
heartbeat.interval.ms Interval between heartbeats to the group coordinator, in milliseconds.
interceptor.classes Java classes that intercept every record.
isolation.level Whether to read records of uncommitted transactions: read_uncommitted or read_committed.
key.deserializer Java class that deserializes keys.
key.serializer Java class that serializes keys.
linger.ms Milliseconds that a batch waits for more records.
max.block.ms Maximum time that sending waits for memory or for the topic's metadata, in milliseconds.
max.in.flight.requests.per.connection Maximum number of unanswered requests to one broker; with more than one, a \
failure can change the order of records.
max.partition.fetch.bytes Maximum size of one partition's data in a fetch response, in bytes.
max.poll.interval.ms Maximum time between two polls before the group removes the member, in milliseconds. \
connections.max.idle.ms must be at least as large, or the connection to the coordinator may be closed in a \
rebalance.
max.poll.records Maximum number of records that a poll returns.
max.request.size Maximum size of a request, and so of a record, in bytes.
metadata.cluster.check.enable Whether brokers check that a connection is meant for them; requires 4.4 brokers \
and metadata.recovery.strategy=rebootstrap (KIP-1242).
metadata.max.age.ms Milliseconds after which the client refreshes its metadata of topics and brokers.
metadata.max.idle.ms Milliseconds after which the metadata of a topic without writes is discarded.
metadata.recovery.rebootstrap.trigger.ms Milliseconds without a response from any known broker after which the \
client connects to bootstrap.servers again.
metadata.recovery.strategy What to do when no known broker responds: connect to bootstrap.servers again \
(rebootstrap), or nothing (none).
metric.reporters Java classes that receive the client's metrics.
metrics.num.samples Number of samples for each of the client's metrics.
metrics.recording.level Recording level of the client's metrics: INFO, DEBUG or TRACE.
metrics.sample.window.ms Duration of one sample of the client's metrics, in milliseconds.
partition.assignment.strategy Java classes of assignors in a classic group; the first one that all members \
support is used.
partitioner.adaptive.partitioning.enable Whether faster brokers receive more of the records without a key.
partitioner.availability.timeout.ms Milliseconds after which a partition that accepts no batches receives no more \
records without a key; 0: never.
partitioner.class Java class that chooses the partition of each record; default: by the hash of the key.
partitioner.ignore.keys Whether to ignore keys when choosing a partition.
partitioner.rack.aware Whether the default partitioner prefers partitions whose leader is in client.rack.
receive.buffer.bytes Size of the TCP receive buffer in bytes; -1: the system's default.
reconnect.backoff.max.ms Maximum time between two attempts to connect to a broker, in milliseconds.
reconnect.backoff.ms Milliseconds before connecting to a broker again; doubled after each failure.
request.timeout.ms Maximum time to wait for a broker's response, in milliseconds.
retries Maximum number of retries of a request that failed with a retriable error.
retry.backoff.max.ms Maximum time between two attempts of a request, in milliseconds.
retry.backoff.ms Milliseconds before a failed request is retried; doubled after each failure.
sasl.client.callback.handler.class Java class that provides credentials; only producers support it.
sasl.jaas.config Login module and its options, in the format of a JAAS file.
sasl.kerberos.kinit.cmd Path of the command kinit.
sasl.kerberos.min.time.before.relogin Minimum time between two Kerberos logins, in milliseconds.
sasl.kerberos.service.name Name of the brokers' Kerberos principal.
sasl.kerberos.ticket.renew.jitter Random jitter added to the renewal time of a ticket, as a fraction.
sasl.kerberos.ticket.renew.window.factor Fraction of a Kerberos ticket's lifetime after which the ticket is renewed.
sasl.login.callback.handler.class Java class that obtains login credentials; Kraal also supports Kafka's own \
classes for OAUTHBEARER.
sasl.login.class Java class that performs the login; only producers support it.
sasl.login.connect.timeout.ms Timeout for connecting to the token endpoint, in milliseconds.
sasl.login.read.timeout.ms Timeout for the token endpoint's response, in milliseconds.
sasl.login.refresh.buffer.seconds Minimum time between the refresh of a token and its expiry, in seconds.
sasl.login.refresh.min.period.seconds Minimum time that a token is kept before it is refreshed, in seconds.
sasl.login.refresh.window.factor Fraction of a token's lifetime after which the token is refreshed.
sasl.login.refresh.window.jitter Random jitter added to the refresh time, as a fraction of a token's lifetime.
sasl.login.retry.backoff.max.ms Maximum time between two login attempts, in milliseconds.
sasl.login.retry.backoff.ms Milliseconds before a login is retried; doubled after each failure.
sasl.mechanism Login mechanism if security.protocol requires a login: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or \
OAUTHBEARER.
sasl.oauthbearer.allow.unverified.audience Whether tokens are accepted without a check of their audience.
sasl.oauthbearer.allow.unverified.issuer Whether tokens are accepted without a check of their issuer.
sasl.oauthbearer.assertion.algorithm Algorithm that signs the JWT that the client creates: RS256 or ES256.
sasl.oauthbearer.assertion.claim.aud Claim aud (audience) of the JWT that the client creates.
sasl.oauthbearer.assertion.claim.exp.seconds Lifetime of the JWT that the client creates, in seconds.
sasl.oauthbearer.assertion.claim.iss Claim iss (issuer) of the JWT that the client creates.
sasl.oauthbearer.assertion.claim.jti.include Whether the JWT that the client creates has a unique id (claim jti).
sasl.oauthbearer.assertion.claim.nbf.seconds Number of seconds before the creation of the client's JWT at \
which the JWT becomes valid.
sasl.oauthbearer.assertion.claim.sub Claim sub (subject) of the JWT that the client creates.
sasl.oauthbearer.assertion.file File that contains a complete JWT to use instead of creating one.
sasl.oauthbearer.assertion.private.key.file File with the private key, in PEM, that signs the client's JWT.
sasl.oauthbearer.assertion.private.key.passphrase Passphrase of the private key that signs the client's JWT.
sasl.oauthbearer.assertion.template.file JSON file with additional headers and claims of the client's JWT.
sasl.oauthbearer.client.credentials.client.id Client id for the token endpoint (grant type client_credentials).
sasl.oauthbearer.client.credentials.client.secret Client secret for the token endpoint.
sasl.oauthbearer.clock.skew.seconds Allowed difference between the clocks of the client and the token issuer, in \
seconds.
sasl.oauthbearer.expected.audience Audiences; a token must name one of them.
sasl.oauthbearer.expected.issuer Required issuer of tokens.
sasl.oauthbearer.header.urlencode Whether to URL-encode id and secret before they are sent, as RFC 6749 specifies.
sasl.oauthbearer.jwks.endpoint.refresh.ms Interval for fetching the keys that verify tokens, in milliseconds.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms Maximum time between two attempts to fetch the keys that verify \
tokens, in milliseconds.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms Milliseconds before a failed attempt to fetch the keys that verify \
tokens is retried.
sasl.oauthbearer.jwks.endpoint.url URL of the keys that verify tokens.
sasl.oauthbearer.jwt.retriever.class Java class that fetches tokens.
sasl.oauthbearer.jwt.validator.class Java class that verifies tokens.
sasl.oauthbearer.scope Scope to request from the token endpoint.
sasl.oauthbearer.scope.claim.name Claim of a token that contains its scopes.
sasl.oauthbearer.sub.claim.name Claim of a token that contains its subject.
sasl.oauthbearer.token.endpoint.url URL of the token endpoint.
security.protocol Protocol of connections to brokers: with or without TLS, with or without a login.
security.providers Java classes of additional security providers.
send.buffer.bytes Size of the TCP send buffer in bytes; -1: the system's default.
session.timeout.ms Milliseconds without a heartbeat after which the group removes the member.
share.acknowledgement.mode How a member of a share group acknowledges records: implicit or explicit.
share.acquire.mode How many records a member of a share group acquires: whole batches, or the number that it requested.
socket.connection.setup.timeout.max.ms Maximum timeout for connecting after failures, in milliseconds.
socket.connection.setup.timeout.ms Timeout for connecting, in milliseconds; doubled after each failure.
ssl.cipher.suites Allowed TLS cipher suites.
ssl.enabled.protocols Allowed TLS versions.
ssl.endpoint.identification.algorithm Verification of host names: https compares the name in a broker's certificate \
with its address; empty: no verification.
ssl.engine.factory.class Java class that creates TLS engines; only producers support it.
ssl.key.password Password of the private key.
ssl.keymanager.algorithm Java algorithm that selects the client's key.
ssl.keystore.certificate.chain Certificate chain of the client, in PEM.
ssl.keystore.key Private key of the client, in PEM.
ssl.keystore.location File with the client's certificate and private key.
ssl.keystore.password Password of the key store file.
ssl.keystore.type Format of the key store file: PKCS12, PEM, JKS or JCEKS; Java's keytool converts the last two.
ssl.protocol TLS version of Java's SSL context.
ssl.provider Java security provider of TLS.
ssl.secure.random.implementation Random number generator of Java's TLS.
ssl.trustmanager.algorithm Java algorithm that verifies certificates.
ssl.truststore.certificates Trusted certificates, in PEM.
ssl.truststore.location File with trusted certificates; default: the certificates that the system trusts.
ssl.truststore.password Password of the trust store file.
ssl.truststore.type Format of the trust store file: PKCS12, PEM, JKS or JCEKS; Java's keytool converts the last two.
transaction.timeout.ms Milliseconds after which the broker aborts an open transaction.
transaction.two.phase.commit.enable Whether transactions use two-phase commit with an external coordinator.
transactional.id Id of the producer's transactions.
value.deserializer Java class that deserializes values.
value.serializer Java class that serializes values.
"""

_NOT_JAVA: Final = "these clients are not Java clients"
_VERIFIED_BY_BROKERS: Final = "brokers, not clients, verify tokens"
_OLD_SPARK_CLIENTS: Final = "Spark uses the clients of Kafka 3.9, which do not support it"
_MANAGED_TRANSACTIONS: Final = "exactly-once support manages transactions and transactional ids"
_RAW_BYTES: Final = "records are bytes, which converters read and write"
_COMMITTED_PER_BATCH: Final = "offsets are committed after each batch"
_RANGE_ASSIGNOR: Final = "the group member uses the classic protocol and the range assignor"
_NO_PROVIDERS: Final = "only a worker has config providers"

# Clients (Producer, Consumer, Admin), a key or a prefix of keys, and the reason.
_WITHOUT_EFFECT: Final = (
    ("PCA", "config.providers", _NO_PROVIDERS),
    ("P", "bootstrap.resolve.timeout.ms", _OLD_SPARK_CLIENTS),
    ("CA", "bootstrap.resolve.timeout.ms", _NOT_JAVA),
    ("P", "buffer.memory.allocation.strategy", _OLD_SPARK_CLIENTS),
    ("P", "client.rack", _OLD_SPARK_CLIENTS),
    ("P", "metadata.cluster.check.enable", _OLD_SPARK_CLIENTS),
    ("CA", "metadata.cluster.check.enable", _NOT_JAVA),
    ("P", "partitioner.rack.aware", _OLD_SPARK_CLIENTS),
    ("PCA", "sasl.oauthbearer.allow.unverified.", _VERIFIED_BY_BROKERS),
    ("A", "bootstrap.controllers", "the client connects to brokers"),
    ("A", "default.api.timeout.ms", _NOT_JAVA),
    ("A", "metric.reporters", _NOT_JAVA),
    ("A", "metrics.", _NOT_JAVA),
    ("A", "sasl.kerberos.", "Kerberos is not supported"),
    ("A", "sasl.login.refresh.", "tokens are fetched on demand"),
    ("A", "sasl.login.retry.", _NOT_JAVA),
    ("PCA", "sasl.oauthbearer.assertion.", "tokens are requested only with id and secret"),
    ("A", "sasl.oauthbearer.clock.skew.seconds", _VERIFIED_BY_BROKERS),
    ("A", "sasl.oauthbearer.expected.", _VERIFIED_BY_BROKERS),
    ("A", "sasl.oauthbearer.jwks.", _VERIFIED_BY_BROKERS),
    ("PCA", "sasl.oauthbearer.jwt.validator.class", _VERIFIED_BY_BROKERS),
    ("A", "sasl.oauthbearer.scope.claim.name", _VERIFIED_BY_BROKERS),
    ("A", "sasl.oauthbearer.sub.claim.name", _VERIFIED_BY_BROKERS),
    ("A", "security.providers", _NOT_JAVA),
    ("A", "ssl.cipher.suites", _NOT_JAVA),
    ("A", "ssl.keymanager.algorithm", _NOT_JAVA),
    ("A", "ssl.protocol", _NOT_JAVA),
    ("A", "ssl.provider", _NOT_JAVA),
    ("A", "ssl.secure.random.implementation", _NOT_JAVA),
    ("A", "ssl.trustmanager.algorithm", _NOT_JAVA),
    ("P", "key.serializer", _RAW_BYTES),
    ("P", "value.serializer", _RAW_BYTES),
    ("P", "transactional.id", _MANAGED_TRANSACTIONS),
    ("P", "transaction.two.phase.commit.enable", _MANAGED_TRANSACTIONS),
    ("P", "metadata.recovery.rebootstrap.trigger.ms", _OLD_SPARK_CLIENTS),
    ("C", "key.deserializer", _RAW_BYTES),
    ("C", "value.deserializer", _RAW_BYTES),
    ("C", "auto.commit.interval.ms", _COMMITTED_PER_BATCH),
    ("C", "enable.auto.commit", _COMMITTED_PER_BATCH),
    ("C", "group.protocol", _RANGE_ASSIGNOR),
    ("C", "group.remote.assignor", _RANGE_ASSIGNOR),
    ("C", "partition.assignment.strategy", _RANGE_ASSIGNOR),
    ("C", "interceptor.classes", "Spark reads the records and does not support interceptors"),
    ("C", "share.", "sinks are members of ordinary groups"),
)


@cache
def client_texts() -> dict[str, str]:
    """Return the descriptions of all settings by name."""
    pairs = (line.partition(" ") for line in _TEXTS.splitlines())
    return {name: text for name, _, text in pairs}


def no_effect_reason(client_letter: str, name: str) -> str:
    """Return the reason why a setting has no effect in a client (`P`, `C` or `A`), or an empty string."""
    reasons = (
        reason
        for client_letters, prefix, reason in _WITHOUT_EFFECT
        if client_letter in client_letters and name.startswith(prefix)
    )
    return next(reasons, "")
