"""IncrementalAlterConfigs and AlterConfigs: each resource's changes checked, then decided into ConfigRecords.

Always holds: a resource is changed whole or not at all, and each succeeds or fails by itself. Values are written down
as they were given, as in Kafka; they are decoded where they are used.
Does not know: loggers, whose levels are not metadata; `server.config_changes` sets those.
A broker setting that nobody knows is stored, as in Kafka, and shown to nobody but by its name.
Differs from Kafka: a broker setting that Kafka knows and that has no effect in Barnabas is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.config.broker import BrokerConfig, effective
from barnabas.config.client_metrics import ClientMetricsConfig
from barnabas.config.group import GroupConfig
from barnabas.config.setting import Setting, Update, ValueType
from barnabas.config.topic import TopicConfig
from barnabas.config.validation import ConfigError, OutOfRange
from barnabas.controller.decision import RECORDS_MAX, Decision, Refusal
from barnabas.controller.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from barnabas.controller.partitions import too_many
from barnabas.errors import ErrorCode
from barnabas.metadata import topic_names
from barnabas.metadata.image import ConfigResource, MetadataImage, ResourceType
from barnabas.protocol.message import Message

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
    from barnabas.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

CLUSTER_DEFAULT: Final = ""  # the name of the broker resource that stands for all brokers
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class Operation(IntEnum):
    """Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    name: str
    operation: int  # as the client gave it: perhaps none of the above
    value: str | None


class Alteration(NamedTuple):
    """What is to be done to one resource."""

    resource: ConfigResource
    edits: tuple[Edit, ...]
    replaces: bool  # whether all that is not named goes back to its default, as AlterConfigs does

    @property
    def sets(self) -> Iterable[Edit]:
        return (edit for edit in self.edits if edit.operation != Operation.DELETE)


def incremental_alterations(request: "IncrementalAlterConfigsRequest") -> list[Alteration]:
    return [
        Alteration(
            ConfigResource(resource.resource_type, resource.resource_name),
            tuple(Edit(config.name, config.config_operation, config.value) for config in resource.configs),
            replaces=False,
        )
        for resource in request.resources
    ]


def replacing_alterations(request: "AlterConfigsRequest") -> list[Alteration]:
    return [
        Alteration(
            ConfigResource(resource.resource_type, resource.resource_name),
            tuple(Edit(config.name, Operation.SET, config.value) for config in resource.configs),
            replaces=True,
        )
        for resource in request.resources
    ]


# What the broker that was asked can say by itself


def check_form(alterations: Sequence[Alteration], node_id: int | None) -> list[Refusal | None]:
    """For each alteration, what is wrong with it whatever the metadata may be.

    `node_id` is that of the broker that was asked, which answers for itself only; None where it has asked the
    controller in its turn.
    """
    times: dict[ConfigResource, int] = {}
    for alteration in alterations:
        times[alteration.resource] = times.get(alteration.resource, 0) + 1
    return [
        _refused("The resource is named twice.") if times[each.resource] > 1 else _check_form(each, node_id)
        for each in alterations
    ]


def _check_form(alteration: Alteration, node_id: int | None) -> Refusal | None:
    names = [edit.name for edit in alteration.edits]
    if len(set(names)) < len(names):
        return _refused("A setting is named twice.")
    nulls = [edit.name for edit in alteration.sets if edit.value is None]
    if nulls:
        return _refused(f"A value cannot be null: {', '.join(nulls)}.")
    unknown = [edit.operation for edit in alteration.edits if edit.operation not in tuple(Operation)]
    if unknown:
        return _refused(f"There is no operation {unknown[0]}.")
    match alteration.resource.type:
        case ResourceType.BROKER if alteration.resource.name == CLUSTER_DEFAULT:
            return None
        case ResourceType.BROKER:
            return _check_node(alteration.resource.name, node_id)
        case ResourceType.BROKER_LOGGER if not alteration.replaces:
            return _check_node(alteration.resource.name, node_id)
        case ResourceType.TOPIC | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            return None
        case unsupported:
            return _refused(f"Resources of type {unsupported} have no configs that can be altered so.")


def _check_node(name: str, node_id: int | None) -> Refusal | None:
    if node_id is not None and name != str(node_id):
        return _refused(f"This is broker {node_id}; ask broker {name!r} itself.")
    return None


def _refused(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


# What the controller decides


def alter(
    image: MetadataImage, alterations: Sequence[Alteration], static: BrokerConfig
) -> Decision[list[Refusal | None]]:
    """Records, and for each alteration why it is refused, if it is. `static` is the config of the node's file."""
    records: list[Message] = []
    outcomes: list[Refusal | None] = []
    for alteration in alterations:
        decided = _alter(image, alteration, static)
        if isinstance(decided, Refusal):
            outcomes.append(decided)
        else:
            outcomes.append(None)
            records += decided
    if len(records) > RECORDS_MAX:
        return Decision([], [too_many(len(records))] * len(alterations))
    return Decision(records, outcomes)


def _alter(image: MetadataImage, alteration: Alteration, static: BrokerConfig) -> list[Message] | Refusal:
    current = image.config(*alteration.resource)
    changes: dict[str, str | None] = {}
    for edit in alteration.edits:
        value = _edited(edit, alteration.resource.type, current.get(edit.name))
        if isinstance(value, Refusal):
            return value
        changes[edit.name] = value
    if alteration.replaces:
        changes.update((name, None) for name in current if name not in changes)
    after = {name: text for name, text in {**current, **changes}.items() if text is not None}
    refusal = _check(image, alteration, changes, after, static)
    return _records(image, alteration.resource, current, changes) if refusal is None else refusal


def _edited(edit: Edit, resource_type: int, current: str | None) -> str | Refusal | None:
    """The setting's new text; None where it goes back to its default."""
    if edit.operation in (Operation.SET, Operation.DELETE):
        return edit.value if edit.operation == Operation.SET else None
    assert edit.value is not None  # check_form has seen to it
    setting = _list_setting(resource_type, edit.name)
    if setting is None:
        return Refusal(ErrorCode.INVALID_CONFIG, f"{edit.name} is no list: nothing can be added to or taken from it.")
    before = (setting.encode(setting.default) or "") if current is None else current
    parts = [part for part in before.split(",") if part]
    for part in edit.value.split(","):
        if edit.operation == Operation.SUBTRACT and part in parts:
            parts.remove(part)
        elif edit.operation == Operation.APPEND and part not in parts:
            parts.append(part)
    return ",".join(parts)


def _list_setting(resource_type: int, name: str) -> Setting | None:
    """Of topics and brokers only: lists of other resources can only be set whole, as in Kafka."""
    settings: Mapping[int, Mapping[str, Setting]] = {
        ResourceType.TOPIC: TopicConfig.SETTINGS,
        ResourceType.BROKER: BrokerConfig.SETTINGS,
    }
    setting = settings.get(resource_type, {}).get(name)
    return setting if setting is not None and setting.type is ValueType.LIST else None


def _records(
    image: MetadataImage, resource: ConfigResource, current: Mapping[str, str], changes: Mapping[str, str | None]
) -> list[Message]:
    from barnabas.protocol.messages.clear_elr_record import ClearElrRecord
    from barnabas.protocol.messages.config_record import ConfigRecord

    records: list[Message] = []
    for name, text in changes.items():
        # What is set for brokers is written down even where it does not change, so that brokers load it again.
        if text != current.get(name) or resource.type == ResourceType.BROKER:
            records.append(
                ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=text)
            )
            if name == MIN_INSYNC_REPLICAS and _has_eligible_leaders(image):
                # They were chosen by the number that no longer holds (KIP-966).
                topic_name = resource.name if resource.type == ResourceType.TOPIC else ""
                records.append(ClearElrRecord(topic_name=topic_name))
    return records


def _has_eligible_leaders(image: MetadataImage) -> bool:
    return image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0


# Whether the result may stand


def _check(
    image: MetadataImage,
    alteration: Alteration,
    changes: Mapping[str, str | None],
    after: Mapping[str, str],
    static: BrokerConfig,
) -> Refusal | None:
    name = alteration.resource.name
    match alteration.resource.type:
        case ResourceType.TOPIC:
            return _check_topic(image, name, after, static)
        case ResourceType.BROKER:
            return (
                _check_broker(name, changes)
                or _check_together(image, name, changes, static)
                or _check_min_insync_replicas(image, name, changes)
            )
        case ResourceType.CLIENT_METRICS:
            return _check_client_metrics(name, after)
        case ResourceType.GROUP:
            return _check_group(image, name, after, static)
        case unsupported:
            raise AssertionError(f"check_form lets resources of type {unsupported} pass")


def _check_topic(image: MetadataImage, name: str, after: Mapping[str, str], static: BrokerConfig) -> Refusal | None:
    if not name:
        return _refused("A topic must be named: there are no defaults for all topics.")
    fault = topic_names.fault(name)
    if fault is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The topic name {fault}.")
    cluster = image.config(ResourceType.BROKER, CLUSTER_DEFAULT)
    own = image.config(ResourceType.BROKER, str(static.node_id))
    try:
        TopicConfig.checked(after, effective(static, cluster, own)[0])
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    if name not in image.topics_by_name:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name!r} does not exist.")
    return None


def _check_broker(broker: str, changes: Mapping[str, str | None]) -> Refusal | None:
    for name, text in changes.items():
        if text is None:
            continue
        setting = BrokerConfig.SETTINGS.get(name)
        if setting is None:
            from barnabas.config import inapplicable

            if inapplicable.is_unknown_to_kafka(name):
                continue
            return _refused(f"{name} has no effect: {inapplicable.reason(name)}.")
        if setting.update is Update.READ_ONLY:
            return _refused(f"{name} cannot change while the broker runs.")
        if setting.update is Update.PER_BROKER and broker == CLUSTER_DEFAULT:
            return _refused(f"{name} can be set for single brokers only.")
        try:
            setting.decode(text)
        except ConfigError as error:
            return _refused(str(error))
    return None


def _check_together(
    image: MetadataImage, broker: str, changes: Mapping[str, str | None], static: BrokerConfig
) -> Refusal | None:
    """Whether the broker's settings still fit together, and may change so far at once."""
    from barnabas.config import dynamic

    cluster = image.config(ResourceType.BROKER, CLUSTER_DEFAULT)
    layers = [cluster] if broker == CLUSTER_DEFAULT else [cluster, image.config(ResourceType.BROKER, broker)]
    altered = {name: text for name, text in {**layers[-1], **changes}.items() if text is not None}
    before, _ = effective(static, *layers)
    after, _ = effective(static, *layers[:-1], altered)
    words = dynamic.fault(before, after)
    return None if words is None else _refused(words)


def _check_min_insync_replicas(image: MetadataImage, broker: str, changes: Mapping[str, str | None]) -> Refusal | None:
    """Where eligible leaders are kept (KIP-966), one number must hold in the whole cluster, and always."""
    if not _has_eligible_leaders(image) or MIN_INSYNC_REPLICAS not in changes:
        return None
    if broker != CLUSTER_DEFAULT:
        return Refusal(
            ErrorCode.INVALID_CONFIG, f"{MIN_INSYNC_REPLICAS} can be set for all brokers only, not for one of them."
        )
    if changes[MIN_INSYNC_REPLICAS] is None:
        return Refusal(ErrorCode.INVALID_CONFIG, f"{MIN_INSYNC_REPLICAS} can be changed, but not taken away.")
    return None


def _check_client_metrics(name: str, after: Mapping[str, str]) -> Refusal | None:
    if not name:
        return _refused("A subscription to client metrics must be named.")
    for setting, text in after.items():
        if setting not in ClientMetricsConfig.SETTINGS:
            return _refused(f"{setting} is not a setting of client metrics.")
        try:
            ClientMetricsConfig.SETTINGS[setting].decode(text)
        except OutOfRange as error:
            return _refused(str(error))
        except ConfigError as error:
            return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    return None


def _check_group(image: MetadataImage, name: str, after: Mapping[str, str], static: BrokerConfig) -> Refusal | None:
    if not name:
        return _refused("A group must be named: there are no defaults for all groups.")
    cluster = image.config(ResourceType.BROKER, CLUSTER_DEFAULT)
    own = image.config(ResourceType.BROKER, str(static.node_id))
    try:
        GroupConfig.checked(after, effective(static, cluster, own)[0])
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, str(error))
    return None
