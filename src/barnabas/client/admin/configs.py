"""Settings of topics, brokers, groups and client metrics as the cluster has them, and quotas of clients."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from barnabas.client.admin.base import AdminBase
from barnabas.client.admin.results import Results
from barnabas.client.cluster import ANY
from barnabas.client.errors import KafkaError, error_of
from barnabas.config.describe import ConfigSource
from barnabas.errors import ErrorCode
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from barnabas.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.types import BrokerId

NO_SOURCE = -1


class ResourceKind(IntEnum):
    """Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """Whose settings. A broker's name is its number; the empty name stands for all brokers."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name or '(default)'}"


class ConfigSynonym(NamedTuple):
    """Where a value could come from, the one that counts first."""

    name: str
    value: str | None
    source: ConfigSource | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """`value` is None also where it is secret."""

    name: str
    value: str | None
    source: ConfigSource | None
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT_CONFIG


class AlterOperation(IntEnum):
    """Kafka's numbers. APPEND and SUBTRACT are for settings that are lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class AlterConfigOp(NamedTuple):
    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


QuotaEntity = tuple[tuple[str, str | None], ...]  # ("client-id", name) and ("user", name); None stands for the default


class Configs(AdminBase):
    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        include_synonyms: bool = False,
        include_documentation: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        """All settings or those named. What one broker itself has is asked of that broker."""
        keys = None if names is None else list(names)

        async def ask(
            node_id: BrokerId, group: list[ConfigResource]
        ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
                    for kind, name in group
                ],
                include_synonyms=include_synonyms,
                include_documentation=include_documentation,
            )
            response = await self.cluster.request(node_id, request)
            found: Results[ConfigResource, dict[str, ConfigEntry]] = Results()
            for each in response.results:
                key = ConfigResource(ResourceKind(each.resource_type), each.resource_name)
                entries = {config.name: _entry(config) for config in each.configs}
                found.add(key, each.error_code, entries, each.error_message, about=str(key))
            return found

        return await self.carry_out(resources, self.to_owners, ask, what="describing configs", timeout_ms=timeout_ms)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfigOp]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[ConfigResource, None]:
        """Changes what is named and leaves the rest as it is. All changes of one resource count, or none."""

        async def ask(node_id: BrokerId, group: list[ConfigResource]) -> Results[ConfigResource, None]:
            request = IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=key.kind,
                        resource_name=key.name,
                        configs=[
                            AlterableConfig(name=op.name, config_operation=op.operation, value=op.value)
                            for op in changes[key]
                        ],
                    )
                    for key in group
                ],
                validate_only=validate_only,
            )
            response = await self.cluster.request(node_id, request)
            found: Results[ConfigResource, None] = Results()
            for each in response.responses:
                key = ConfigResource(ResourceKind(each.resource_type), each.resource_name)
                found.add(key, each.error_code, None, each.error_message, about=str(key))
            return found

        return await self.carry_out(changes, self.to_owners, ask, what="altering configs", timeout_ms=timeout_ms)

    async def to_owners(
        self, items: list[ConfigResource]
    ) -> tuple[dict[BrokerId, list[ConfigResource]], dict[ConfigResource, KafkaError]]:
        """A broker knows best what it was started with; anybody knows the rest."""
        routed: dict[BrokerId, list[ConfigResource]] = {}
        unrouted: dict[ConfigResource, KafkaError] = {}
        for item in items:
            owner = ANY
            if item.kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER) and item.name:
                owner = int(item.name) if item.name.isdigit() else ANY
                if owner not in self.cluster.brokers:
                    unrouted[item] = error_of(
                        ErrorCode.BROKER_ID_NOT_REGISTERED, "there is no such broker", about=str(item)
                    )
                    continue
            routed.setdefault(owner, []).append(item)
        return routed, unrouted

    async def list_config_resources(
        self, kinds: Iterable[ResourceKind] = (), *, timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """Everything that has settings of its own, or of these kinds."""

        async def attempt() -> list[ConfigResource]:
            response = await self.cluster.request(ANY, ListConfigResourcesRequest(resource_types=list(kinds)))
            if response.error_code != ErrorCode.NONE:
                raise error_of(response.error_code)
            return [
                ConfigResource(ResourceKind(each.resource_type), each.resource_name)
                for each in response.config_resources
            ]

        return await self.cluster.retry(attempt, what="listing resources", timeout_ms=self.within_ms(timeout_ms))

    async def describe_client_quotas(
        self, match: Mapping[str, str | None] | None = None, *, strict: bool = False, timeout_ms: float | None = None
    ) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas, or those whose entities match: by kind, a name, "" for any name, None for the default."""
        components = [
            ComponentData(
                entity_type=kind, match_type=0 if name else 1 if name is None else 2, match=name if name else None
            )
            for kind, name in (match or {}).items()
        ]
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        response = await self.ask_controller(request, what="describing client quotas", timeout_ms=timeout_ms)
        return {
            tuple((part.entity_type, part.entity_name) for part in entry.entity): {
                each.key: each.value for each in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> Results[QuotaEntity, None]:
        """None takes a quota away."""

        async def ask(node_id: BrokerId, group: list[QuotaEntity]) -> Results[QuotaEntity, None]:
            request = AlterClientQuotasRequest(
                entries=[
                    RequestEntryData(
                        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in key],
                        ops=[
                            OpData(key=name, value=value or 0.0, remove=value is None)
                            for name, value in changes[key].items()
                        ],
                    )
                    for key in group
                ],
                validate_only=validate_only,
            )
            response = await self.cluster.request(node_id, request)
            found: Results[QuotaEntity, None] = Results()
            for each in response.entries:
                entity = tuple((part.entity_type, part.entity_name) for part in each.entity)
                found.add(entity, each.error_code, None, each.error_message, about=f"quotas of {entity}")
            return found

        return await self.carry_out(changes, self.to_controller, ask, what="altering quotas", timeout_ms=timeout_ms)


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_source(config.config_source),
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        synonyms=tuple(ConfigSynonym(each.name, each.value, _source(each.source)) for each in config.synonyms),
        documentation=config.documentation or None,
    )


def _source(number: int) -> ConfigSource | None:
    return ConfigSource(number) if number in ConfigSource._value2member_map_ else None
