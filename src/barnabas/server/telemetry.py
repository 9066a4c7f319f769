"""Client telemetry (KIP-714) as a Kafka without a receiver of metrics does it: clients that ask are told what the
`client-metrics` resources subscribe them to, and what they push is checked and then dropped.

Always holds: at most INSTANCES_MAX clients are remembered, the longest silent one goes first.
Differs from Kafka: `match` cannot see a client's software name and version, so a pattern on them matches nobody.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.metadata.ids import new_uuid
from barnabas.metadata.image import MetadataImage, ResourceType
from barnabas.protocol.checksum import crc32c
from barnabas.protocol.compression import Codec
from barnabas.runtime.interfaces import Runtime
from barnabas.server.context import RequestContext
from barnabas.types import ZERO_UUID, Uuid, uuid_text

INSTANCES_MAX = 16_384  # Kafka's number
PUSH_INTERVAL_MS_DEFAULT = 300_000
ALL_METRICS = "*"
NEVER_MS = -(1 << 62)
ACCEPTED_COMPRESSION_TYPES = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)  # the preferred one first


class Subscription(NamedTuple):
    metrics: tuple[str, ...]
    push_interval_ms: int


class Instance:
    """One client. A change of its subscription makes a new one, which may ask again at once."""

    __slots__ = ("get_ms", "push_ms", "subscription", "subscription_id", "terminating")

    def __init__(self, subscription: Subscription, subscription_id: int) -> None:
        self.subscription = subscription
        self.subscription_id = subscription_id
        self.get_ms: float = NEVER_MS
        self.push_ms: float = NEVER_MS
        self.terminating = False


class ClientTelemetry:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._instances: dict[Uuid, Instance] = {}  # longest silent first

    def subscribe(
        self, image: MetadataImage, context: RequestContext, client_instance_id: Uuid
    ) -> tuple[ErrorCode, Uuid, Instance]:
        client_instance_id = client_instance_id if client_instance_id != ZERO_UUID else new_uuid(self._runtime.random)
        instance = self._instance(image, context, client_instance_id)
        now_ms = self._runtime.clock.monotonic_ms()
        if now_ms - max(instance.get_ms, instance.push_ms) < instance.subscription.push_interval_ms:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED, client_instance_id, instance
        instance.get_ms = now_ms
        return ErrorCode.NONE, client_instance_id, instance

    def push(
        self,
        image: MetadataImage,
        context: RequestContext,
        *,
        client_instance_id: Uuid,
        subscription_id: int,
        terminating: bool,
        compression_type: int,
        size_bytes: int,
        size_bytes_max: int,
    ) -> ErrorCode:
        if client_instance_id == ZERO_UUID:
            return ErrorCode.INVALID_REQUEST
        instance = self._instance(image, context, client_instance_id)
        was_terminating, instance.terminating = instance.terminating, terminating
        now_ms = self._runtime.clock.monotonic_ms()
        # The first push after a subscription comes with a jitter, hence before the interval has passed.
        in_time = instance.get_ms > instance.push_ms or (
            now_ms - instance.push_ms >= instance.subscription.push_interval_ms
        )
        if was_terminating:
            return ErrorCode.INVALID_REQUEST
        if in_time:
            instance.push_ms = now_ms
        elif not terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if not 0 <= compression_type <= Codec.ZSTD:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if size_bytes > size_bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _instance(self, image: MetadataImage, context: RequestContext, client_instance_id: Uuid) -> Instance:
        subscription = subscription_of(image, context, client_instance_id)
        instance = self._instances.pop(client_instance_id, None)
        if instance is None or instance.subscription != subscription:
            instance = Instance(subscription, subscription_id_of(subscription, client_instance_id))
        self._instances[client_instance_id] = instance
        if len(self._instances) > INSTANCES_MAX:
            del self._instances[next(iter(self._instances))]
        return instance


def subscription_of(image: MetadataImage, context: RequestContext, client_instance_id: Uuid) -> Subscription:
    """Everything that the matching resources ask for together, as often as the most eager one wants it."""
    metrics: dict[str, None] = {}
    push_interval_ms = PUSH_INTERVAL_MS_DEFAULT
    for resource, settings in image.configs.items():
        if resource.type == ResourceType.CLIENT_METRICS and matches(settings, context, client_instance_id):
            metrics.update(dict.fromkeys(filter(None, settings.get("metrics", "").split(","))))
            push_interval_ms = min(push_interval_ms, int(settings.get("interval.ms", PUSH_INTERVAL_MS_DEFAULT)))
    return Subscription((ALL_METRICS,) if ALL_METRICS in metrics else tuple(metrics), push_interval_ms)


def matches(settings: Mapping[str, str], context: RequestContext, client_instance_id: Uuid) -> bool:
    """`match` holds selectors `name=regular expression`, all of which must fit."""
    facts = {
        "client_instance_id": uuid_text(client_instance_id),
        "client_id": context.client_id or "",
        "client_source_address": context.peer_address[0],
        "client_source_port": str(context.peer_address[1]),
    }
    selectors = (selector.partition("=") for selector in settings.get("match", "").split(",") if selector)
    return all(re.fullmatch(pattern, facts.get(name.strip(), "")) for name, _equals, pattern in selectors)


def subscription_id_of(subscription: Subscription, client_instance_id: Uuid) -> int:
    """Differs between clients and changes with the subscription; means nothing else."""
    asked = f"{','.join(subscription.metrics)} {subscription.push_interval_ms}".encode()
    number = crc32c(asked) ^ crc32c(client_instance_id)
    return number - (1 << 32) if number >= 1 << 31 else number
