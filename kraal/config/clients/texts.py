"""What users read of the settings of Kafka's clients, and which of them do nothing here, and why.

Producers are Java's, inside Spark. A sink's records are read by Java's consumer inside Spark; its group member is
librdkafka. Admin clients are librdkafka; the member of a workers' group is kafka-python.
"""

from __future__ import annotations

from functools import cache
from typing import Final

# One key a line: its name, and its text. A backslash goes on in the next line.
_TEXTS: Final = """\
acks How many replicas have to have a record before its write counts: none (0), the leader (1), or all in sync (all).
allow.auto.create.topics Whether asking for an unknown topic may have the broker create it.
auto.commit.interval.ms Milliseconds between two commits that the consumer makes by itself.
auto.offset.reset Where to begin where no offset is committed, or what it names is gone: earliest, latest, or \
none, which fails.
batch.size Bytes that one batch of records for a partition may have.
bootstrap.controllers Addresses HOST:PORT of controllers, to ask them instead of brokers.
bootstrap.servers Addresses HOST:PORT of brokers to begin with; without it, those of the worker.
buffer.memory Bytes of records that may wait to be sent.
check.crcs Check the checksum of every batch that is read.
client.dns.lookup How a broker's name is turned into addresses: all of them are tried, or their canonical names are.
client.id What brokers call the client in logs, metrics and quotas.
client.rack Where the client stands, so that it can read from a replica nearby.
compression.gzip.level How hard gzip tries; -1 is its own default.
compression.lz4.level How hard lz4 tries.
compression.type How batches are compressed: none, gzip, snappy, lz4 or zstd.
compression.zstd.level How hard zstd tries.
config.providers Names of providers that the client's own settings may take values from.
connections.max.idle.ms Milliseconds after which a connection that nobody uses is closed.
default.api.timeout.ms Milliseconds that a call has which names no time of its own.
delivery.timeout.ms Milliseconds from handing over a record until it is written or has failed, with all tries.
enable.auto.commit Whether the consumer commits offsets by itself.
enable.idempotence Whether a record that is sent again is written once only.
enable.metrics.push Whether the client sends its metrics to the brokers that ask for them (KIP-714).
exclude.internal.topics Whether a pattern of topics passes over Kafka's internal ones.
fetch.max.bytes Bytes that one answer to a read may have, over all partitions.
fetch.max.wait.ms Milliseconds that a broker may wait for fetch.min.bytes.
fetch.min.bytes Bytes that a broker should collect before it answers a read.
group.id The consumer group; without it, connect- and the connector's name.
group.instance.id A name that the member keeps over restarts, so that it gets its partitions back (static membership).
group.protocol Which protocol the group uses: classic, or consumer (KIP-848).
group.remote.assignor What the brokers should share out partitions by, in a group of the protocol consumer.
heartbeat.interval.ms Milliseconds between two heartbeats to the group's coordinator.
interceptor.classes Java classes that see every record on its way.
isolation.level Whether records of transactions that are not committed are read: read_uncommitted or read_committed.
key.deserializer The Java class that reads keys.
key.serializer The Java class that writes keys.
linger.ms Milliseconds that a batch waits for more records.
max.block.ms Milliseconds that sending may wait for memory or for knowing the topic.
max.in.flight.requests.per.connection How many requests may be under way to one broker; with several, a \
failure may change the order.
max.partition.fetch.bytes Bytes of one partition that one answer may have.
max.poll.interval.ms Milliseconds that a member may be busy with a batch before the group gives it up.
max.poll.records How many records are handed over at once.
max.request.size Bytes that one request, and so one record, may have.
metadata.max.age.ms Milliseconds until brokers are asked anew which topics and brokers there are.
metadata.max.idle.ms Milliseconds until a topic that nothing is written to is forgotten.
metadata.recovery.rebootstrap.trigger.ms Milliseconds without an answer from any known broker after which \
bootstrap.servers are asked again.
metadata.recovery.strategy What to do when no known broker answers: ask bootstrap.servers again \
(rebootstrap), or nothing (none).
metric.reporters Java classes that get the client's metrics.
metrics.num.samples How many samples each of the client's metrics keeps.
metrics.recording.level How much the client measures: INFO, DEBUG or TRACE.
metrics.sample.window.ms Milliseconds over which one sample of the client's metrics is taken.
partition.assignment.strategy Java classes that share out partitions in a classic group, the first that all \
members know.
partitioner.adaptive.partitioning.enable Whether quicker brokers get more of the records that have no key.
partitioner.availability.timeout.ms Milliseconds after which a partition that takes no batches gets no more \
records without a key; 0 is never.
partitioner.class A Java class that chooses the partition of each record; without it, the hash of the key does.
partitioner.ignore.keys Whether keys have no say in the choice of a partition.
receive.buffer.bytes Size of the sockets' receive buffers; -1 is the system's default.
reconnect.backoff.max.ms The longest pause before a broker is connected to again, in milliseconds.
reconnect.backoff.ms Milliseconds before a broker is connected to again; doubled by each failure.
request.timeout.ms Milliseconds that a broker has for an answer.
retries How often a request that failed for a passing reason is sent again.
retry.backoff.max.ms The longest pause before a request is sent again, in milliseconds.
retry.backoff.ms Milliseconds before a failed request is sent again; doubled by each failure.
sasl.client.callback.handler.class A Java class that answers what a login asks; refused for all but producers.
sasl.jaas.config The login module and its options, as a line of a JAAS file has them.
sasl.kerberos.kinit.cmd Where the command kinit is.
sasl.kerberos.min.time.before.relogin The shortest time between two logins by Kerberos, in milliseconds.
sasl.kerberos.service.name The name of the brokers' Kerberos principal.
sasl.kerberos.ticket.renew.jitter Which part of the time until a ticket is renewed is left to chance.
sasl.kerberos.ticket.renew.window.factor After which part of its life a Kerberos ticket is renewed.
sasl.login.callback.handler.class A Java class that fetches what a login needs; Kafka's own for OAUTHBEARER \
is known here.
sasl.login.class A Java class that logs in; refused for all but producers.
sasl.login.connect.timeout.ms Milliseconds that a connection to the token endpoint may take.
sasl.login.read.timeout.ms Milliseconds that the token endpoint has for an answer.
sasl.login.refresh.buffer.seconds How many seconds before its end a token is replaced at the latest.
sasl.login.refresh.min.period.seconds How many seconds a token is kept at least.
sasl.login.refresh.window.factor After which part of its life a token is replaced.
sasl.login.refresh.window.jitter Which part of a token's life is left to chance in that.
sasl.login.retry.backoff.max.ms The longest pause between two tries to log in, in milliseconds.
sasl.login.retry.backoff.ms Milliseconds before a login is tried again; doubled by each failure.
sasl.mechanism How the client logs in where security.protocol says that it does: PLAIN, SCRAM-SHA-256, \
SCRAM-SHA-512 or OAUTHBEARER.
sasl.oauthbearer.assertion.algorithm What a JWT that the client makes for itself is signed with: RS256 or ES256.
sasl.oauthbearer.assertion.claim.aud For whom that JWT is: its claim aud.
sasl.oauthbearer.assertion.claim.exp.seconds How many seconds that JWT holds.
sasl.oauthbearer.assertion.claim.iss Who issued that JWT: its claim iss.
sasl.oauthbearer.assertion.claim.jti.include Whether that JWT gets an id of its own: the claim jti.
sasl.oauthbearer.assertion.claim.nbf.seconds How many seconds in the past that JWT begins to hold.
sasl.oauthbearer.assertion.claim.sub Of whom that JWT speaks: its claim sub.
sasl.oauthbearer.assertion.file A file that holds a ready JWT.
sasl.oauthbearer.assertion.private.key.file The private key, in PEM, that the JWT is signed with.
sasl.oauthbearer.assertion.private.key.passphrase What that private key is encrypted with.
sasl.oauthbearer.assertion.template.file A JSON file of further headers and claims of that JWT.
sasl.oauthbearer.client.credentials.client.id Who asks the token endpoint, by the grant client_credentials.
sasl.oauthbearer.client.credentials.client.secret The secret of who asks the token endpoint.
sasl.oauthbearer.clock.skew.seconds How many seconds the clocks of the client and of who issues tokens may differ.
sasl.oauthbearer.expected.audience Audiences of which a token must name one.
sasl.oauthbearer.expected.issuer Who must have issued a token.
sasl.oauthbearer.header.urlencode Whether id and secret are encoded as in URLs before they are sent, as RFC \
6749 wants it.
sasl.oauthbearer.jwks.endpoint.refresh.ms Milliseconds until the keys that tokens are checked by are fetched again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms The longest pause before those keys are asked for again, \
in milliseconds.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms Milliseconds before those keys are asked for again after a failure.
sasl.oauthbearer.jwks.endpoint.url Where the keys are that tokens are checked by.
sasl.oauthbearer.jwt.retriever.class Which of Java's classes fetches tokens.
sasl.oauthbearer.jwt.validator.class Which of Java's classes checks tokens.
sasl.oauthbearer.scope The scope to ask the token endpoint for.
sasl.oauthbearer.scope.claim.name The claim of a token that holds its scopes.
sasl.oauthbearer.sub.claim.name The claim of a token that says whose it is.
sasl.oauthbearer.token.endpoint.url Where tokens are fetched.
security.protocol How brokers are spoken to: with TLS or without, with a login or without.
security.providers Java classes that bring further algorithms.
send.buffer.bytes Size of the sockets' send buffers; -1 is the system's default.
session.timeout.ms Milliseconds without a heartbeat after which the group gives the member up.
share.acknowledgement.mode How a member of a share group says that it is done with records: implicit or explicit.
share.acquire.mode How many records a member of a share group gets: as batches have them, or as many as it asked for.
socket.connection.setup.timeout.max.ms The longest that a connection may take after failures, in milliseconds.
socket.connection.setup.timeout.ms Milliseconds that a connection may take; doubled by each failure.
ssl.cipher.suites Cipher suites of TLS that may be used.
ssl.enabled.protocols Versions of TLS that may be spoken.
ssl.endpoint.identification.algorithm With https, the name in a broker's certificate must be the name it was \
reached by; empty, it need not.
ssl.engine.factory.class A Java class that does TLS; refused for all but producers.
ssl.key.password What the private key is encrypted with.
ssl.keymanager.algorithm Which of Java's algorithms chooses the client's key.
ssl.keystore.certificate.chain The client's certificate and those that vouch for it, in PEM.
ssl.keystore.key The client's private key, in PEM.
ssl.keystore.location The file of the client's certificate and private key.
ssl.keystore.password The password of that file.
ssl.keystore.type The format of that file: PKCS12, PEM, or JKS, which only Java reads.
ssl.protocol Which version of TLS Java prepares for.
ssl.provider Who does TLS in Java.
ssl.secure.random.implementation Where Java's TLS gets random numbers from.
ssl.trustmanager.algorithm Which of Java's algorithms checks certificates.
ssl.truststore.certificates Certificates to trust, in PEM.
ssl.truststore.location The file of certificates to trust; without it, those that the system trusts.
ssl.truststore.password The password of that file.
ssl.truststore.type The format of that file: PKCS12, PEM, or JKS, which only Java reads.
transaction.timeout.ms Milliseconds after which a broker aborts a transaction that is not ended.
transaction.two.phase.commit.enable Whether transactions are committed in two phases, by a coordinator of their own.
transactional.id The name of the producer's transactions.
value.deserializer The Java class that reads values.
value.serializer The Java class that writes values.
"""

_NOT_JAVA: Final = "these clients are not Java"
_CHECKED_ELSEWHERE: Final = "brokers check tokens, clients do not"
_SPARK_OLDER: Final = "Spark's clients are of Kafka 3.9, which does not know it"
_NO_TRANSACTIONS: Final = "there are no transactions yet"
_BYTES: Final = "records are bytes here, and converters read and write them"
_OURS: Final = "offsets are committed after each batch"
_RANGE: Final = "the group's member has the classic protocol and the range assignor"
_RESOLVED: Final = "only a worker has config providers"

# One rule a line: whose keys (Producer, Consumer, Admin), the key or the beginning of several, and why.
_NOTHING: Final = (
    ("PCA", "config.providers", _RESOLVED),
    ("A", "bootstrap.controllers", "the brokers are asked"),
    ("A", "default.api.timeout.ms", _NOT_JAVA),
    ("A", "metric.reporters", _NOT_JAVA),
    ("A", "metrics.", _NOT_JAVA),
    ("A", "sasl.kerberos.", "Kerberos is not supported"),
    ("A", "sasl.login.refresh.", "a token is fetched when one is needed"),
    ("A", "sasl.login.retry.", _NOT_JAVA),
    ("PCA", "sasl.oauthbearer.assertion.", "a token is asked for by id and secret alone"),
    ("A", "sasl.oauthbearer.clock.skew.seconds", _CHECKED_ELSEWHERE),
    ("A", "sasl.oauthbearer.expected.", _CHECKED_ELSEWHERE),
    ("A", "sasl.oauthbearer.jwks.", _CHECKED_ELSEWHERE),
    ("PCA", "sasl.oauthbearer.jwt.validator.class", _CHECKED_ELSEWHERE),
    ("A", "sasl.oauthbearer.scope.claim.name", _CHECKED_ELSEWHERE),
    ("A", "sasl.oauthbearer.sub.claim.name", _CHECKED_ELSEWHERE),
    ("A", "security.providers", _NOT_JAVA),
    ("A", "ssl.cipher.suites", _NOT_JAVA),
    ("A", "ssl.keymanager.algorithm", _NOT_JAVA),
    ("A", "ssl.protocol", _NOT_JAVA),
    ("A", "ssl.provider", _NOT_JAVA),
    ("A", "ssl.secure.random.implementation", _NOT_JAVA),
    ("A", "ssl.trustmanager.algorithm", _NOT_JAVA),
    ("P", "key.serializer", _BYTES),
    ("P", "value.serializer", _BYTES),
    ("P", "transaction", _NO_TRANSACTIONS),
    ("P", "metadata.recovery.rebootstrap.trigger.ms", _SPARK_OLDER),
    ("C", "key.deserializer", _BYTES),
    ("C", "value.deserializer", _BYTES),
    ("C", "auto.commit.interval.ms", _OURS),
    ("C", "enable.auto.commit", _OURS),
    ("C", "group.protocol", _RANGE),
    ("C", "group.remote.assignor", _RANGE),
    ("C", "partition.assignment.strategy", _RANGE),
    ("C", "interceptor.classes", "records are read by Spark, which takes none"),
    ("C", "share.", "sinks are members of ordinary groups"),
)


@cache
def client_texts() -> dict[str, str]:
    """Return the text of every setting, by its name."""
    pairs = (line.partition(" ") for line in _TEXTS.splitlines())
    return {name: text for name, _, text in pairs}


def why_nothing(owner: str, name: str) -> str:
    """Return why a setting does nothing for one kind of client (`P`, `C`, `A`); empty when it does what it says."""
    rules = (why for owners, start, why in _NOTHING if owner in owners and name.startswith(start))
    return next(rules, "")
