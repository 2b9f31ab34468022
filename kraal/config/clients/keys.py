"""The config keys of Kafka's clients, used to validate and list a connector's overrides.

Kraal's client libraries support most of these keys; unsupported keys are logged when a client is created.
Source: ProducerConfig, ConsumerConfig, AdminClientConfig (Kafka 4.4.0).
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal

from kraal.config.checks import at_least, one_of_ignoring_case
from kraal.config.clients.offset_reset import offset_reset
from kraal.config.clients.texts import client_texts, no_effect_reason
from kraal.config.key import REQUIRED, ConfigDef, ConfigType, Importance, Key
from kraal.config.values import parse_value

Client = Literal["producer", "consumer", "admin"]

# One key per line: name, type, importance, clients (Producer, Consumer, Admin) and default, which is `=` and the
# value, `null`, or `REQUIRED`. `$K` stands for org.apache.kafka, `$C` for the package of the consumer. A key whose
# default differs between clients has one line for each default.
_TABLE: Final = """\
acks STRING LOW P =all
allow.auto.create.topics BOOLEAN MEDIUM C =true
auto.commit.interval.ms INT LOW C =5000
auto.offset.reset STRING MEDIUM C =latest
batch.size INT MEDIUM P =16384
bootstrap.controllers LIST HIGH A =
bootstrap.resolve.timeout.ms LONG HIGH PCA =0
bootstrap.servers LIST HIGH A =
bootstrap.servers LIST HIGH PC REQUIRED
buffer.memory LONG HIGH P =33554432
buffer.memory.allocation.strategy STRING MEDIUM P =full
check.crcs BOOLEAN LOW C =true
client.dns.lookup STRING MEDIUM PCA =use_all_dns_ips
client.id STRING LOW C =
client.id STRING MEDIUM PA =
client.rack STRING LOW PC =
compression.gzip.level INT MEDIUM P =-1
compression.lz4.level INT MEDIUM P =9
compression.type STRING HIGH P =none
compression.zstd.level INT MEDIUM P =3
config.providers LIST LOW PCA =
connections.max.idle.ms LONG MEDIUM A =300000
connections.max.idle.ms LONG MEDIUM PC =540000
default.api.timeout.ms INT MEDIUM CA =60000
delivery.timeout.ms INT MEDIUM P =120000
enable.auto.commit BOOLEAN MEDIUM C =true
enable.idempotence BOOLEAN LOW P =true
enable.metrics.push BOOLEAN LOW A =false
enable.metrics.push BOOLEAN LOW PC =true
exclude.internal.topics BOOLEAN MEDIUM C =true
fetch.max.bytes INT MEDIUM C =52428800
fetch.max.wait.ms INT LOW C =500
fetch.min.bytes INT HIGH C =1
group.id STRING HIGH C null
group.instance.id STRING MEDIUM C null
group.protocol STRING HIGH C =classic
group.remote.assignor STRING MEDIUM C null
heartbeat.interval.ms INT HIGH C =3000
interceptor.classes LIST LOW PC =
isolation.level STRING MEDIUM C =read_uncommitted
key.deserializer CLASS HIGH C REQUIRED
key.serializer CLASS HIGH P REQUIRED
linger.ms LONG MEDIUM P =5
max.block.ms LONG MEDIUM P =60000
max.in.flight.requests.per.connection INT LOW P =5
max.partition.fetch.bytes INT HIGH C =1048576
max.poll.interval.ms INT MEDIUM C =300000
max.poll.records INT MEDIUM C =500
max.request.size INT MEDIUM P =1048576
metadata.cluster.check.enable BOOLEAN LOW PCA =true
metadata.max.age.ms LONG LOW PCA =300000
metadata.max.idle.ms LONG LOW P =300000
metadata.recovery.rebootstrap.trigger.ms LONG LOW PCA =300000
metadata.recovery.strategy STRING LOW PCA =rebootstrap
metric.reporters LIST LOW PCA =$K.common.metrics.JmxReporter
metrics.num.samples INT LOW PCA =2
metrics.recording.level STRING LOW PCA =INFO
metrics.sample.window.ms LONG LOW PCA =30000
partition.assignment.strategy LIST MEDIUM C =class $C.RangeAssignor,class $C.CooperativeStickyAssignor
partitioner.adaptive.partitioning.enable BOOLEAN LOW P =true
partitioner.availability.timeout.ms LONG LOW P =0
partitioner.class CLASS MEDIUM P null
partitioner.ignore.keys BOOLEAN MEDIUM P =false
partitioner.rack.aware BOOLEAN LOW P =false
receive.buffer.bytes INT MEDIUM P =32768
receive.buffer.bytes INT MEDIUM CA =65536
reconnect.backoff.max.ms LONG LOW PCA =1000
reconnect.backoff.ms LONG LOW PCA =50
request.timeout.ms INT MEDIUM PCA =30000
retries INT HIGH P =2147483647
retries INT LOW A =2147483647
retry.backoff.max.ms LONG LOW PCA =1000
retry.backoff.ms LONG LOW PCA =100
sasl.client.callback.handler.class CLASS MEDIUM PCA null
sasl.jaas.config PASSWORD MEDIUM PCA null
sasl.kerberos.kinit.cmd STRING LOW PCA =/usr/bin/kinit
sasl.kerberos.min.time.before.relogin LONG LOW PCA =60000
sasl.kerberos.service.name STRING MEDIUM PCA null
sasl.kerberos.ticket.renew.jitter DOUBLE LOW PCA =0.05
sasl.kerberos.ticket.renew.window.factor DOUBLE LOW PCA =0.8
sasl.login.callback.handler.class CLASS MEDIUM PCA null
sasl.login.class CLASS MEDIUM PCA null
sasl.login.connect.timeout.ms INT LOW PCA null
sasl.login.read.timeout.ms INT LOW PCA null
sasl.login.refresh.buffer.seconds SHORT LOW PCA =300
sasl.login.refresh.min.period.seconds SHORT LOW PCA =60
sasl.login.refresh.window.factor DOUBLE LOW PCA =0.8
sasl.login.refresh.window.jitter DOUBLE LOW PCA =0.05
sasl.login.retry.backoff.max.ms LONG LOW PCA =10000
sasl.login.retry.backoff.ms LONG LOW PCA =100
sasl.mechanism STRING MEDIUM PCA =GSSAPI
sasl.oauthbearer.allow.unverified.audience BOOLEAN MEDIUM PCA =false
sasl.oauthbearer.allow.unverified.issuer BOOLEAN MEDIUM PCA =false
sasl.oauthbearer.assertion.algorithm STRING MEDIUM PCA =RS256
sasl.oauthbearer.assertion.claim.aud STRING MEDIUM PCA null
sasl.oauthbearer.assertion.claim.exp.seconds INT LOW PCA =300
sasl.oauthbearer.assertion.claim.iss STRING MEDIUM PCA null
sasl.oauthbearer.assertion.claim.jti.include BOOLEAN MEDIUM PCA =false
sasl.oauthbearer.assertion.claim.nbf.seconds INT LOW PCA =60
sasl.oauthbearer.assertion.claim.sub STRING MEDIUM PCA null
sasl.oauthbearer.assertion.file STRING MEDIUM PCA null
sasl.oauthbearer.assertion.private.key.file STRING MEDIUM PCA null
sasl.oauthbearer.assertion.private.key.passphrase PASSWORD MEDIUM PCA null
sasl.oauthbearer.assertion.template.file STRING MEDIUM PCA null
sasl.oauthbearer.client.credentials.client.id STRING MEDIUM PCA null
sasl.oauthbearer.client.credentials.client.secret PASSWORD MEDIUM PCA null
sasl.oauthbearer.clock.skew.seconds INT LOW PCA =30
sasl.oauthbearer.expected.audience LIST HIGH PCA =
sasl.oauthbearer.expected.issuer STRING HIGH PCA null
sasl.oauthbearer.header.urlencode BOOLEAN LOW PCA =false
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG LOW PCA =3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG LOW PCA =10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG LOW PCA =100
sasl.oauthbearer.jwks.endpoint.url STRING MEDIUM PCA null
sasl.oauthbearer.jwt.retriever.class CLASS MEDIUM PCA =$K.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class CLASS MEDIUM PCA =$K.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope STRING MEDIUM PCA null
sasl.oauthbearer.scope.claim.name STRING LOW PCA =scope
sasl.oauthbearer.sub.claim.name STRING LOW PCA =sub
sasl.oauthbearer.token.endpoint.url STRING MEDIUM PCA null
security.protocol STRING MEDIUM PCA =PLAINTEXT
security.providers STRING LOW PCA null
send.buffer.bytes INT MEDIUM PCA =131072
session.timeout.ms INT HIGH C =45000
share.acknowledgement.mode STRING MEDIUM C =implicit
share.acquire.mode STRING MEDIUM C =BATCH_OPTIMIZED
socket.connection.setup.timeout.max.ms LONG MEDIUM PCA =30000
socket.connection.setup.timeout.ms LONG MEDIUM PCA =10000
ssl.cipher.suites LIST LOW PCA =
ssl.enabled.protocols LIST MEDIUM PCA =TLSv1.2,TLSv1.3
ssl.endpoint.identification.algorithm STRING LOW PCA =https
ssl.engine.factory.class CLASS LOW PCA null
ssl.key.password PASSWORD HIGH PCA null
ssl.keymanager.algorithm STRING LOW PCA =SunX509
ssl.keystore.certificate.chain PASSWORD HIGH PCA null
ssl.keystore.key PASSWORD HIGH PCA null
ssl.keystore.location STRING HIGH PCA null
ssl.keystore.password PASSWORD HIGH PCA null
ssl.keystore.type STRING MEDIUM PCA =JKS
ssl.protocol STRING MEDIUM PCA =TLSv1.3
ssl.provider STRING MEDIUM PCA null
ssl.secure.random.implementation STRING LOW PCA null
ssl.trustmanager.algorithm STRING LOW PCA =PKIX
ssl.truststore.certificates PASSWORD HIGH PCA null
ssl.truststore.location STRING HIGH PCA null
ssl.truststore.password PASSWORD HIGH PCA null
ssl.truststore.type STRING MEDIUM PCA =JKS
transaction.timeout.ms INT LOW P =60000
transaction.two.phase.commit.enable BOOLEAN LOW P =false
transactional.id STRING LOW P null
value.deserializer CLASS HIGH C REQUIRED
value.serializer CLASS HIGH P REQUIRED
"""

_VALIDATORS: Final = {
    "auto.offset.reset": offset_reset,
    "bootstrap.resolve.timeout.ms": at_least(0),
    "buffer.memory.allocation.strategy": one_of_ignoring_case("full", "incremental"),
}


@cache
def client_def(client: Client) -> ConfigDef:
    """Return the config keys of a client. Created on first use."""
    client_letter = client[0].upper()
    table = _TABLE.replace("$C", "$K.clients.consumer").replace("$K", "org.apache.kafka")
    texts = client_texts()
    rows = (line.split(" ", 4) for line in table.splitlines())
    return ConfigDef(
        Key(
            name=name,
            type=ConfigType(kind),
            default=_parse_default(name, ConfigType(kind), text),
            importance=Importance(importance),
            doc=texts[name],
            source=f"{client.capitalize()}Config",
            no_effect=no_effect_reason(client_letter, name),
            validator=_VALIDATORS.get(name),
        )
        for name, kind, importance, client_letters, text in rows
        if client_letter in client_letters
    )


@cache
def client_names() -> frozenset[str]:
    """Return the names of the config keys of all clients."""
    return frozenset(line.split(" ", 1)[0] for line in _TABLE.splitlines())


def _parse_default(name: str, kind: ConfigType, text: str) -> object:
    if text == "REQUIRED":
        return REQUIRED
    return parse_value(name, text[1:], kind) if text.startswith("=") else None
