"""Settings of Kafka that a file may hold and that have no effect here, each with the reason.

Nothing is accepted and ignored in silence: loading one of these logs a warning, or is refused where ignoring it would
weaken the cluster (`danger`). A setting moves from here to `broker` when something implements it.
"""

from collections.abc import Mapping
from types import MappingProxyType

_GONE = "Kafka 4 has no such setting any more"
_NAMES_BY_REASON = {
    "it exists for tests of Apache Kafka itself": """
        controller.performance.always.log.threshold.ms controller.performance.sample.period.ms
        group.consumer.regex.refresh.interval.ms group.share.initialize.retry.interval.ms
        group.share.persister.class.name internal.metadata.delete.delay.millis internal.metadata.log.segment.bytes
        internal.metadata.max.batch.size.in.bytes log.initial.task.delay.ms
        remote.log.index.file.cache.ttl.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter server.max.startup.time.ms
        share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.state.topic.prune.interval.ms
        unstable.feature.versions.enable
    """,
    "a broker is one process with one event loop and has no such threads": """
        background.threads group.coordinator.background.threads group.coordinator.threads num.io.threads
        num.network.threads num.replica.fetchers num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
    """,
    "a waiting request is an object that ends by itself; nothing is ever purged": """
        delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
        producer.purgatory.purge.interval.requests share.fetch.purgatory.purge.interval.requests
    """,
    "it names a Java class, which a Python broker cannot load": """
        alter.config.policy.class.name authorizer.class.name client.quota.callback.class config.providers
        create.topic.policy.class.name kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters
        principal.builder.class sasl.client.callback.handler.class
        sasl.login.callback.handler.class sasl.login.class sasl.oauthbearer.jwt.retriever.class
        sasl.oauthbearer.jwt.validator.class sasl.server.callback.handler.class security.providers
        ssl.engine.factory.class ssl.keymanager.algorithm ssl.provider ssl.secure.random.implementation
        ssl.trustmanager.algorithm
    """,
    "the operating system sizes receive buffers and queues by itself": """
        socket.listen.backlog.size socket.receive.buffer.bytes
    """,
    "start offsets are written down together with recovery points, by log.flush.offset.checkpoint.interval.ms": """
        log.flush.start.offset.checkpoint.interval.ms
    """,
    "metrics are counted without samples and windows": """
        metrics.num.samples metrics.recording.level metrics.sample.window.ms
    """,
    "there is no tiered storage": """
        follower.fetch.last.tiered.offset.enable remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms
        remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
        remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
        remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.follower.thread.pool.size
        remote.log.manager.task.interval.ms remote.log.manager.thread.pool.size
        remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
        remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
        remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
        remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.storage.manager.impl.prefix remote.log.storage.system.enable
    """,
    "there are no share groups": """
        group.share.assignment.interval.ms group.share.assignors group.share.delivery.count.limit
        group.share.heartbeat.interval.ms group.share.max.assignment.interval.ms
        group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
        group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
        group.share.max.session.timeout.ms group.share.max.share.sessions group.share.max.size
        group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
        group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
        share.coordinator.append.linger.ms share.coordinator.cached.buffer.max.bytes
        share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
        share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
        share.coordinator.state.topic.num.partitions share.coordinator.state.topic.replication.factor
        share.coordinator.state.topic.segment.bytes share.coordinator.threads share.coordinator.write.timeout.ms
    """,
    "there are no streams groups": """
        group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
        group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
        group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
        group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
        group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
        group.streams.num.standby.replicas group.streams.session.timeout.ms
    """,
    "a broker has one data directory": """
        alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
        cordoned.log.dirs log.dir.failure.timeout.ms
    """,
    "the buffer that it sizes does not exist here": """
        group.coordinator.cached.buffer.max.bytes offsets.load.buffer.size replica.socket.receive.buffer.bytes
        transaction.state.log.load.buffer.size
    """,
    "TLS, SASL, tokens and authorization are not available yet": """
        allow.everyone.if.no.acl.found connection.failed.authentication.delay.ms connections.max.reauth.ms
        delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms delegation.token.max.lifetime.ms
        delegation.token.secret.key early.start.listeners sasl.enabled.mechanisms sasl.jaas.config
        sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
        sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
        sasl.mechanism.inter.broker.protocol sasl.oauthbearer.assertion.algorithm
        sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
        sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
        sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
        sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
        sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
        sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope
        sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
        sasl.server.max.receive.size security.inter.broker.protocol ssl.allow.dn.changes ssl.allow.san.changes
        ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
        ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
        ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.truststore.certificates
        ssl.truststore.location ssl.truststore.password ssl.truststore.type super.users
    """,
    "a coordinator writes its records at once": """
        group.coordinator.append.linger.ms
    """,
    "quotas are not available yet": """
        controller.quota.window.num controller.quota.window.size.seconds max.connection.creation.rate
        quota.window.num quota.window.size.seconds
    """,
    "replication is throttled without windows: what was copied is paid for with time": """
        replication.quota.window.num replication.quota.window.size.seconds
    """,
    "the metadata log is not written to while nothing changes": """
        metadata.max.idle.interval.ms
    """,
    "it has one fixed value here, or belongs to a part of clusters that is not built yet": """
        controller.quorum.append.linger.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
        controller.socket.timeout.ms initial.broker.registration.timeout.ms
        request.timeout.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    """,
    "this limit is not enforced yet": """
        max.connections.per.ip.overrides queued.max.request.bytes
    """,
    _GONE: """
        broker.id.generation.enable control.plane.listener.name controlled.shutdown.max.retries
        controlled.shutdown.retry.backoff.ms delegation.token.master.key inter.broker.protocol.version
        log.message.downconversion.enable log.message.format.version log.message.timestamp.difference.max.ms
        offsets.commit.required.acks reserved.broker.max.id zookeeper.connect zookeeper.connection.timeout.ms
        zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable zookeeper.session.timeout.ms
        zookeeper.set.acl
    """,
}
# A broker that ignored these would protect less than its owner believes: no warning, a refusal.
DANGERS: Mapping[str, str] = MappingProxyType(
    {
        "alter.config.policy.class.name": "no policy would be asked before settings change",
        "authorizer.class.name": "there is no authorization yet, so everyone could read and write everything",
        "config.providers": "values such as ${file:...} would be taken as they stand; write the values themselves",
        "create.topic.policy.class.name": "no policy would be asked before topics are created",
        "security.inter.broker.protocol": "only PLAINTEXT is available yet",
    }
)
_HARMLESS_VALUES = ("", "PLAINTEXT")
_REASONS_BY_PREFIX = {
    "listener.name.": "settings of single listeners are not available yet",
    "rsm.config.": "there is no tiered storage",
    "rlmm.config.": "there is no tiered storage",
    "config.providers.": "it names a Java class, which a Python broker cannot load",
}

REASONS: Mapping[str, str] = MappingProxyType(
    {name: reason for reason, names in _NAMES_BY_REASON.items() for name in names.split()}
)


def danger(name: str, text: str) -> str | None:
    """Why the setting cannot be ignored, as the end of a sentence; None where it can."""
    return None if text.strip() in _HARMLESS_VALUES else DANGERS.get(name)


def reason(name: str) -> str | None:
    """Why the setting has no effect, as the end of a sentence; None where the name is unknown."""
    found = REASONS.get(name)
    if found is None:
        found = next((why for prefix, why in _REASONS_BY_PREFIX.items() if name.startswith(prefix)), None)
    return found


def is_unknown_to_kafka(name: str) -> bool:
    """Kafka knows no listener's settings either until the listener is configured."""
    return REASONS.get(name, _GONE) == _GONE
