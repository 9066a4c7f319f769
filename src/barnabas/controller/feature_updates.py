"""UpdateFeatures: levels raised or lowered, where every broker and controller of the cluster can work at them.

Always holds: all updates of a request are made, or none. `metadata.version` never goes back over a level that changed
what the log holds.
Does not know: how `kraft.version` is raised. It is no record of this log, but of the quorum itself.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.config.broker import BrokerConfig
from barnabas.controller import features
from barnabas.controller.decision import Decision, Refusal
from barnabas.controller.electorate import MIN_INSYNC_REPLICAS, Electorate
from barnabas.controller.features import ELIGIBLE_LEADER_REPLICAS_VERSION, KRAFT_VERSION, METADATA_VERSION
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, ResourceType, VersionRange
from barnabas.protocol.message import Message

if TYPE_CHECKING:
    from barnabas.protocol.messages.update_features import (
        FeatureUpdateKey,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
# Levels of metadata.version since which the log may hold what older versions cannot read. Kafka's facts.
METADATA_CHANGED_AT = frozenset({8, 11, 13, 14, 15, 17, 23, 30})
NEEDS_METADATA_VERSION = {ELIGIBLE_LEADER_REPLICAS_VERSION: 23, KRAFT_VERSION: 21}  # at level 1
UNKNOWN = VersionRange(0, 0)  # of a feature that a node does not know


def update_features(
    image: MetadataImage, kraft_version: int, request: "UpdateFeaturesRequest", static_config: BrokerConfig
) -> Decision["UpdateFeaturesResponse"]:
    """`kraft_version`: the level at which the quorum is."""
    from barnabas.protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse

    updates = {update.feature: update for update in request.feature_updates}
    present = {**image.features, KRAFT_VERSION: kraft_version}
    levels = {**present, **{name: update.max_version_level for name, update in updates.items()}}
    records: list[Message] = []
    for update in updates.values():
        decided = _update(image, update, present, levels)
        if isinstance(decided, Refusal):
            message = (
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {decided.message}"
            )
            return Decision([], UpdateFeaturesResponse(error_code=decided.error, error_message=message))
        records += decided
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0):
        records += _one_min_isr(image, static_config)
    results = [UpdatableFeatureResult(feature=name, error_message=None) for name in updates]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision([] if request.validate_only else records, response)


def _update(
    image: MetadataImage, update: "FeatureUpdateKey", present_levels: Mapping[str, int], levels: Mapping[str, int]
) -> list[Message] | Refusal:
    from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord

    name, level = update.feature, update.max_version_level
    present = present_levels.get(name, 0)
    fault = (
        _type_fault(update, present)
        or _support_fault(image, name, level)
        or _level_fault(name, present, level)
        or _dependency_fault(name, level, levels)
    )
    if fault is not None:
        return Refusal(ErrorCode.INVALID_UPDATE_VERSION, fault)
    if name == KRAFT_VERSION:
        return []  # its record is one of the quorum
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _type_fault(update: "FeatureUpdateKey", present: int) -> str | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"The controller does not support the upgrade type {update.upgrade_type}."
    if update.max_version_level < present and update.upgrade_type == UPGRADE:
        return f"Can't downgrade from version {present} without the upgrade type safe or unsafe downgrade."
    if update.max_version_level > present and update.upgrade_type != UPGRADE:
        return f"Can't downgrade from version {present} to a newer version."
    return None


def _support_fault(image: MetadataImage, name: str, level: int) -> str | None:
    """Everybody must be able to work at the level, whoever is away just now included."""
    supported = {feature.name: feature for feature in features.SUPPORTED}
    if name not in supported:
        return "The controller does not support this feature."
    own = supported[name]
    if not own.min_version <= level <= own.max_version:
        return f"The controller only supports versions {own.min_version}-{own.max_version}."
    nodes = [(f"Broker {each.id}", each.features) for each in image.brokers.values()]
    nodes += [(f"Controller {each.id}", each.features) for each in image.controllers.values()]
    for node, theirs in nodes:
        if not theirs.get(name, UNKNOWN).min <= level <= theirs.get(name, UNKNOWN).max:
            return f"{node} does not support this version."
    return None


def _level_fault(name: str, present: int, level: int) -> str | None:
    if name == KRAFT_VERSION and level < present:
        return "Can't downgrade it: the voters are in the metadata log."
    if name == METADATA_VERSION and any(level < changed <= present for changed in METADATA_CHANGED_AT):
        return f"The metadata log contains records that version {level} does not know."
    return None


def _dependency_fault(name: str, level: int, levels: Mapping[str, int]) -> str | None:
    needs = NEEDS_METADATA_VERSION.get(name, 0) if level > 0 else 0
    if levels.get(METADATA_VERSION, 0) < needs:
        return f"It needs {METADATA_VERSION} {needs} or newer."
    return None


def _one_min_isr(image: MetadataImage, static_config: BrokerConfig) -> list[Message]:
    """With eligible leader replicas one number must hold in the whole cluster: a default for all, none for one."""
    from barnabas.protocol.messages.config_record import ConfigRecord

    records: list[Message] = []
    if MIN_INSYNC_REPLICAS not in image.config(ResourceType.BROKER, ""):
        number = Electorate(image, static_config).default_min_isr()
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER, resource_name="", name=MIN_INSYNC_REPLICAS, value=str(number)
            )
        )
    for resource, configs in image.configs.items():
        if resource.type == ResourceType.BROKER and resource.name and MIN_INSYNC_REPLICAS in configs:
            records.append(
                ConfigRecord(
                    resource_type=resource.type, resource_name=resource.name, name=MIN_INSYNC_REPLICAS, value=None
                )
            )
    return records
