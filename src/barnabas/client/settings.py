"""The settings of clients: Kafka's names, with underscores for dots, as keyword arguments.

    ProducerConfig(bootstrap_servers="localhost:9092", linger_ms=5, acks="all")

Always holds: a name that no setting has fails with the closest one that there is; a value of the wrong type or out of
range fails with what is allowed. Text is read as in a properties file, so that values may come from there as well.
Does not know: what a setting does; its help says it.
"""

import re
from collections.abc import Iterable
from typing import Any

from barnabas.config.setting import (
    Config,
    Notation,
    Setting,
    ValueType,
    boolean,
    integer,
    long,
    names,
    password,
    string,
)
from barnabas.config.validation import INT_MAX, ConfigError, at_least, between, between_or, one_of
from barnabas.protocol.special_numbers import ACKS_ALL, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from barnabas.runtime.interfaces import Address

DEFAULT_PORT = 9092
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_NAMES_AND_TYPES: dict[ValueType, tuple[str, tuple[type, ...]]] = {
    ValueType.BOOLEAN: ("True or False", (bool,)),
    ValueType.STRING: ("text", (str,)),
    ValueType.INT: ("a whole number", (int,)),
    ValueType.SHORT: ("a whole number", (int,)),
    ValueType.LONG: ("a whole number", (int,)),
    ValueType.DOUBLE: ("a number", (int, float)),
    ValueType.LIST: ("a list of texts, or one text with commas", (list, tuple)),
    ValueType.CLASS: ("text", (str,)),
    ValueType.PASSWORD: ("text", (str,)),
}

# How to make PEM of the stores that Java has.
CONVERSIONS = {
    "ssl_truststore": "convert it: keytool -list -rfc -keystore STORE > ca.pem",
    "ssl_keystore": (
        "convert it: keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12, "
        "then openssl pkcs12 -in STORE.p12 -out client.pem"
    ),
}
_OF_SECURITY = ("security.", "sasl.", "ssl.")
# Settings of Kafka's clients that people have in their files, and that cannot mean anything here.
_REFUSED = {
    "ssl.truststore.password": f"a truststore is PEM here, without a password; {CONVERSIONS['ssl_truststore']}",
    "ssl.keystore.password": f"a keystore is PEM here, and its key has ssl_key_password; {CONVERSIONS['ssl_keystore']}",
    "sasl.kerberos.service.name": "GSSAPI is not supported; choose another sasl_mechanism",
}


def _store_type(of: str) -> Notation:
    def decode(text: str) -> str:
        if text.upper() != "PEM":
            raise ValueError(f"only PEM is supported; {CONVERSIONS[of]}")
        return "PEM"

    return Notation(decode, str)


def _security_protocol(text: str) -> str:
    if text.upper() not in SECURITY_PROTOCOLS:
        raise ValueError(f"it must be one of {', '.join(SECURITY_PROTOCOLS)}")
    return text.upper()


def _identification(text: str) -> str:
    if text.lower() not in ("https", ""):
        raise ValueError("it must be https, or empty to take the certificate of any host")
    return text.lower()


class ClientConfig(Config):
    """What all clients share."""

    NUMBERS_TOO: tuple[str, ...] = ()  # settings whose text may be given as a number

    bootstrap_servers: tuple[Address, ...] = names(
        "bootstrap.servers",
        (),
        notation=Notation(
            lambda parts: addresses(parts), lambda found: ",".join(f"{host}:{port}" for host, port in found)
        ),
        help="Brokers to ask for the rest of the cluster, as host:port; one that answers is enough.",
    )
    client_id: str = string("client.id", "barnabas", help="What brokers call this client in their logs and quotas.")
    request_timeout_ms: int = integer(
        "request.timeout.ms", 30_000, at_least(1), help="How long to wait for the answer to one request."
    )
    retry_backoff_ms: int = long(
        "retry.backoff.ms", 100, at_least(0), help="Pause before a failed request is tried again; it doubles each time."
    )
    retry_backoff_max_ms: int = long(
        "retry.backoff.max.ms", 1000, at_least(0), help="Longest pause before a failed request is tried again."
    )
    reconnect_backoff_ms: int = long(
        "reconnect.backoff.ms", 50, at_least(0), help="Pause before a broken connection is made again; it doubles."
    )
    reconnect_backoff_max_ms: int = long(
        "reconnect.backoff.max.ms", 1000, at_least(0), help="Longest pause before a connection is made again."
    )
    socket_connection_setup_timeout_ms: int = long(
        "socket.connection.setup.timeout.ms", 10_000, at_least(1), help="How long to wait for one connection."
    )
    metadata_max_age_ms: int = long(
        "metadata.max.age.ms", 300_000, at_least(1), help="After how long metadata is asked for again, unprompted."
    )
    metadata_recovery_strategy: str = string(
        "metadata.recovery.strategy",
        "rebootstrap",
        one_of("none", "rebootstrap"),
        help="Whether the bootstrap servers are asked again when no known broker can be reached.",
    )

    # Security
    security_protocol: str = string(
        "security.protocol",
        "PLAINTEXT",
        notation=Notation(_security_protocol, str),
        help="PLAINTEXT, SSL (which is TLS), SASL_PLAINTEXT or SASL_SSL, as the broker's listener has it.",
    )
    sasl_mechanism: str | None = string(
        "sasl.mechanism",
        None,
        one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        help="How this client proves who it is.",
    )
    sasl_jaas_config: str | None = password(
        "sasl.jaas.config",
        None,
        help="Username and password as Java's clients have them: a PlainLoginModule or ScramLoginModule.",
    )
    sasl_username: str | None = string("sasl.username", None, help="In the place of sasl.jaas.config.")
    sasl_password: str | None = password("sasl.password", None, help="In the place of sasl.jaas.config.")
    sasl_oauthbearer_token: Any = password(
        "sasl.oauthbearer.token",
        None,
        help="For OAUTHBEARER: the token, or in Python what returns one, asked at each authentication.",
    )
    ssl_truststore_location: str | None = string(
        "ssl.truststore.location", None, help="File with the certificates to trust; without it, those of the system."
    )
    ssl_truststore_certificates: str | None = password(
        "ssl.truststore.certificates", None, help="The certificates to trust themselves, as PEM."
    )
    ssl_truststore_type: str = string(
        "ssl.truststore.type", "PEM", notation=_store_type("ssl_truststore"), help="PEM, and nothing else."
    )
    ssl_keystore_location: str | None = string(
        "ssl.keystore.location", None, help="File with this client's private key and its certificates."
    )
    ssl_keystore_certificate_chain: str | None = password(
        "ssl.keystore.certificate.chain", None, help="This client's certificates themselves, as PEM, its own first."
    )
    ssl_keystore_key: str | None = password("ssl.keystore.key", None, help="This client's private key itself, as PEM.")
    ssl_keystore_type: str = string(
        "ssl.keystore.type", "PEM", notation=_store_type("ssl_keystore"), help="PEM, and nothing else."
    )
    ssl_key_password: str | None = password("ssl.key.password", None, help="Of the private key, if it is encrypted.")
    ssl_endpoint_identification_algorithm: str = string(
        "ssl.endpoint.identification.algorithm",
        "https",
        notation=Notation(_identification, str),
        help="https: the broker's certificate must be for the host that was dialled. Empty: that is not checked.",
    )

    def __init__(self, **given: Any) -> None:
        overrides = {}
        for keyword, value in given.items():
            setting = self._named(keyword)
            if setting.name == "sasl.oauthbearer.token" and callable(value):
                overrides[setting.name] = "a function"
            elif value is not None:
                overrides[setting.name] = self._text(setting, value)
        self._fill(overrides, lambda setting: setting.default, self._what())
        if not self.bootstrap_servers:
            raise ConfigError('bootstrap_servers is missing; name a broker, as in bootstrap_servers="localhost:9092"')
        self._check()
        if any(name.startswith(_OF_SECURITY) for name in overrides):
            from barnabas.client import security_settings

            if callable(token := given.get("sasl_oauthbearer_token")):
                object.__setattr__(self, "sasl_oauthbearer_token", token)
            security_settings.check(self)

    @classmethod
    def accepts(cls, keyword: str) -> bool:
        return keyword.replace("_", ".") in cls.SETTINGS

    def _check(self) -> None:
        """What settings demand of each other."""

    @classmethod
    def _what(cls) -> str:
        return cls.__name__.removesuffix("Config").lower()

    @classmethod
    def _named(cls, keyword: str) -> Setting:
        setting = cls.SETTINGS.get(keyword.replace("_", "."))
        if setting is not None:
            return setting
        if keyword.replace("_", ".") in _REFUSED:
            raise ConfigError(f"{keyword} has no meaning here: {_REFUSED[keyword.replace('_', '.')]}")
        from difflib import get_close_matches

        known = [each.name if "." in keyword else each.attribute for each in cls.SETTINGS.values()]
        found = get_close_matches(keyword, known, n=1)
        hint = f"; did you mean {found[0]}?" if found else ""
        raise ConfigError(f"{keyword} is not a setting of a {cls._what()}{hint}")

    @classmethod
    def _text(cls, setting: Setting, value: Any) -> str:
        """As it would stand in a properties file."""
        if isinstance(value, str):
            return value
        words, types = _NAMES_AND_TYPES[setting.type]
        if setting.name in cls.NUMBERS_TOO and type(value) is int:
            return str(value)
        is_right = isinstance(value, types) and (setting.type is ValueType.BOOLEAN or not isinstance(value, bool))
        if is_right and setting.type is ValueType.LIST:
            is_right = all(isinstance(part, str) for part in value)
        if not is_right:
            shown = "the value" if setting.sensitive else f"{value!r} of type {type(value).__name__}"
            raise ConfigError(f"{setting.attribute}: {shown} is not allowed; it must be {words}")
        if setting.type is ValueType.BOOLEAN:
            return "true" if value else "false"
        return ",".join(value) if setting.type is ValueType.LIST else str(value)


def addresses(parts: Iterable[str]) -> tuple[Address, ...]:
    """`host:port`, `[::1]:port`, or a host alone. ValueError with words where it is none of these."""
    return tuple(_address(part) for part in parts if part)


def _address(text: str) -> Address:
    _scheme, _, rest = text.rpartition("://")  # as listeners are written: PLAINTEXT://host:port
    host, colon, port = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        host, port = rest, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ValueError(f"{text!r} is no host:port")
    return host, int(port)


class AdminConfig(ClientConfig):
    default_api_timeout_ms: int = integer(
        "default.api.timeout.ms", 60_000, at_least(1), help="How long a call may take, with all its requests."
    )


def _acks(text: str) -> int:
    return ACKS_ALL if text == "all" else int(text)


class ProducerConfig(ClientConfig):
    NUMBERS_TOO = ("acks",)

    # What counts as written
    acks: int = string(
        "acks",
        ACKS_ALL,
        one_of("all", "-1", "0", "1"),
        notation=Notation(_acks, lambda acks: "all" if acks == ACKS_ALL else str(acks)),
        help="Who must have a record before it counts as written: all in-sync replicas, the leader (1), nobody (0).",
    )
    enable_idempotence: bool = boolean(
        "enable.idempotence", True, help="Whether a record that is sent again is written once and in order."
    )
    transactional_id: str | None = string(
        "transactional.id", None, help="Name under which transactions are made; one running producer has it at a time."
    )
    transaction_timeout_ms: int = integer(
        "transaction.timeout.ms", 60_000, at_least(1), help="After how long the cluster aborts an open transaction."
    )

    # How long
    delivery_timeout_ms: int = integer(
        "delivery.timeout.ms", 120_000, at_least(0), help="How long a record may take from send to its outcome."
    )
    max_block_ms: int = long(
        "max.block.ms", 60_000, at_least(0), help="How long send may wait for metadata and for room in the buffer."
    )
    retries: int = integer(
        "retries", INT_MAX, between(0, INT_MAX), help="How often a batch is sent again within delivery.timeout.ms."
    )

    # How much
    batch_size: int = integer(
        "batch.size", 16_384, at_least(0), help="Bytes of records of one partition that are sent together."
    )
    linger_ms: int = long(
        "linger.ms", 5, at_least(0), help="How long a batch that is not full waits for further records."
    )
    buffer_memory: int = long(
        "buffer.memory",
        32 << 20,
        at_least(1),
        help="Bytes of records that may wait to be sent; beyond that send waits.",
    )
    max_request_size: int = integer(
        "max.request.size", 1 << 20, at_least(1), help="Largest request, and largest record."
    )
    max_in_flight_requests_per_connection: int = integer(
        "max.in.flight.requests.per.connection",
        5,
        at_least(1),
        help="Requests that one broker may have unanswered; at most 5 keep their order when one is sent again.",
    )

    # How
    compression_type: str = string(
        "compression.type", "none", one_of("none", "gzip", "snappy", "lz4", "zstd"), help="How batches are packed."
    )
    compression_gzip_level: int = integer(
        "compression.gzip.level", -1, between_or(1, 9, -1), help="1 to 9, or -1 for the default of gzip."
    )
    compression_lz4_level: int = integer("compression.lz4.level", 9, between(1, 17), help="1 to 17.")
    compression_zstd_level: int = integer("compression.zstd.level", 3, between(-131_072, 22), help="Up to 22.")

    def _check(self) -> None:
        if self.transactional_id == "":
            raise ConfigError(
                "transactional_id: it must not be empty; leave it out for a producer without transactions"
            )
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("transactional_id: transactions need enable_idempotence=True")
        if self.transactional_id is not None or (self.enable_idempotence and "enable.idempotence" in self.overrides):
            if self.acks != ACKS_ALL:
                raise ConfigError(f'acks: {self.acks} is not allowed with idempotence; leave it out, or set acks="all"')
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigError("max_in_flight_requests_per_connection: at most 5 are allowed with idempotence")
            if self.retries == 0:
                raise ConfigError("retries: 0 is not allowed with idempotence, which is about sending again")
        least_ms = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < least_ms and "delivery.timeout.ms" in self.overrides:
            raise ConfigError(
                f"delivery_timeout_ms: {self.delivery_timeout_ms} is not allowed; "
                f"it must be at least linger_ms + request_timeout_ms, which is {least_ms}"
            )

    @property
    def is_idempotent(self) -> bool:
        """By default, unless other settings rule it out."""
        return (
            self.enable_idempotence
            and self.acks == ACKS_ALL
            and self.retries > 0
            and self.max_in_flight_requests_per_connection <= 5
        )


_JAVA_ASSIGNORS = "org.apache.kafka.clients.consumer."
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_OF_THE_CLASSIC_PROTOCOL = ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
_DURATION = re.compile(r"by_duration:P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def _assignors(parts: Iterable[str]) -> tuple[str, ...]:
    """Java's classes by the names that they have in a group."""
    found = tuple(_ASSIGNORS.get(part.removeprefix(_JAVA_ASSIGNORS), part) for part in parts)
    if not found or any(each not in _ASSIGNORS.values() for each in found):
        raise ValueError(f"it must be a list of one or more of {', '.join(_ASSIGNORS.values())}")
    return found


def _reset(text: str) -> str:
    if text not in ("earliest", "latest", "none") and not _DURATION.fullmatch(text):
        raise ValueError("it must be one of earliest, latest, none, or by_duration: and a duration, as PT1H")
    return text


class ConsumerConfig(ClientConfig):
    # The group
    group_id: str | None = string("group.id", None, help="Group that this consumer belongs to, and commits for.")
    group_instance_id: str | None = string(
        "group.instance.id", None, help="Name that survives restarts, so that a member which comes back keeps its part."
    )
    group_protocol: str = string(
        "group.protocol",
        "classic",
        one_of("classic", "consumer"),
        help="consumer: the group's coordinator assigns partitions, step by step. classic: one of the members does.",
    )
    group_remote_assignor: str | None = string(
        "group.remote.assignor", None, help="Assignor of the coordinator, for group.protocol=consumer."
    )
    partition_assignment_strategy: tuple[str, ...] = names(
        "partition.assignment.strategy",
        ("range", "cooperative-sticky"),
        notation=Notation(_assignors, ",".join),
        help="Assignors that this member knows, best first, for group.protocol=classic.",
    )
    session_timeout_ms: int = integer(
        "session.timeout.ms", 45_000, at_least(1), help="After how long without a heartbeat a member counts as dead."
    )
    heartbeat_interval_ms: int = integer(
        "heartbeat.interval.ms",
        3_000,
        at_least(1),
        help="How often to send heartbeats; a third of the session or less.",
    )
    max_poll_interval_ms: int = integer(
        "max.poll.interval.ms",
        300_000,
        at_least(1),
        help="After how long without a poll the member leaves, so that others read its partitions.",
    )

    # What is read, and from where
    max_poll_records: int = integer("max.poll.records", 500, at_least(1), help="Most records that one poll gives.")
    auto_offset_reset: str = string(
        "auto.offset.reset",
        "latest",
        notation=Notation(_reset, str),
        help="Where to begin without a committed offset that exists: earliest, latest, by_duration:PT1H, none.",
    )
    isolation_level: str = string(
        "isolation.level",
        "read_uncommitted",
        one_of("read_uncommitted", "read_committed"),
        help="Whether records of open and aborted transactions are read.",
    )
    allow_auto_create_topics: bool = boolean(
        "allow.auto.create.topics", True, help="Whether topics that are subscribed to may be created by the broker."
    )
    exclude_internal_topics: bool = boolean(
        "exclude.internal.topics", True, help="Whether a pattern leaves out the topics that belong to Kafka itself."
    )
    check_crcs: bool = boolean("check.crcs", True, help="Whether the checksums of batches are checked.")
    client_rack: str = string(
        "client.rack",
        "",
        help="Where this client is: it reads from a replica nearby, and the range assignor prefers what has one there.",
    )

    # How much and how long
    fetch_min_bytes: int = integer("fetch.min.bytes", 1, at_least(0), help="What a broker waits for before it answers.")
    fetch_max_bytes: int = integer("fetch.max.bytes", 50 << 20, at_least(0), help="Most bytes in one answer.")
    fetch_max_wait_ms: int = integer(
        "fetch.max.wait.ms", 500, at_least(0), help="How long a broker waits for fetch.min.bytes."
    )
    max_partition_fetch_bytes: int = integer(
        "max.partition.fetch.bytes", 1 << 20, at_least(0), help="Most bytes of one partition in one answer."
    )
    enable_auto_commit: bool = boolean(
        "enable.auto.commit", True, help="Whether what earlier polls gave is committed by later ones, and by close."
    )
    auto_commit_interval_ms: int = integer(
        "auto.commit.interval.ms", 5_000, at_least(0), help="How often that is done."
    )
    default_api_timeout_ms: int = integer(
        "default.api.timeout.ms", 60_000, at_least(1), help="How long a call may take, with all its requests."
    )

    def _check(self) -> None:
        if self.group_protocol == "consumer":
            for name in _OF_THE_CLASSIC_PROTOCOL:
                if name in self.overrides:
                    keyword = self.SETTINGS[name].attribute
                    raise ConfigError(
                        f"{keyword}: with group_protocol=consumer this is set on the broker; leave it out"
                    )
        elif self.group_remote_assignor is not None:
            raise ConfigError("group_remote_assignor: this needs group_protocol=consumer")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms: {self.heartbeat_interval_ms} is not allowed; "
                f"it must be less than session_timeout_ms, which is {self.session_timeout_ms}"
            )
        if self.group_id == "":
            raise ConfigError("group_id: it must not be empty; leave it out for a consumer without a group")

    def reset_timestamp_ms(self, now_ms: int) -> int | None:
        """What ListOffsets is asked for where there is no offset; None where that is the application's to say."""
        if self.auto_offset_reset == "none":
            return None
        found = _DURATION.fullmatch(self.auto_offset_reset)
        if found is None:
            return EARLIEST_TIMESTAMP if self.auto_offset_reset == "earliest" else LATEST_TIMESTAMP
        days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
        return max(0, now_ms - int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000))
