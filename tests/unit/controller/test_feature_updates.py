"""UpdateFeatures. Error codes are those of Apache Kafka 4.3.1."""

from typing import Any

import pytest
from images import after, broker, cluster

from barnabas.config.broker import BrokerConfig
from barnabas.controller import feature_updates
from barnabas.controller.features import AT_FORMAT, ELIGIBLE_LEADER_REPLICAS_VERSION, METADATA_VERSION, SUPPORTED
from barnabas.errors import ErrorCode
from barnabas.metadata.image import ConfigResource, MetadataImage, ResourceType, VersionRange
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

RANGES = {each.name: VersionRange(each.min_version, each.max_version) for each in SUPPORTED}
UPGRADE, SAFE, UNSAFE = 1, 2, 3
Update = tuple[str, int, int]  # feature, level, type


def image_of(levels: dict[str, int] | None = None) -> MetadataImage:
    return cluster(broker(1, features=RANGES))._replace(features={**AT_FORMAT, **(levels or {})})


def update(
    image: MetadataImage, *updates: Update, validate_only: bool = False, kraft_version: int = 0
) -> tuple[MetadataImage, Any]:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates
        ],
        validate_only=validate_only,
    )
    static_config = BrokerConfig({"min.insync.replicas": "2"})
    decision = feature_updates.update_features(image, kraft_version, request, static_config)
    return after(image, decision.records), decision.response


def test_a_level_goes_down_and_up_again() -> None:
    image, response = update(image_of(), ("group.version", 0, SAFE))
    assert (response.error_code, image.features.get("group.version", 0)) == (ErrorCode.NONE, 0)
    assert [each.feature for each in response.results] == ["group.version"]
    image, response = update(image, ("group.version", 1, UPGRADE))
    assert (response.error_code, image.features["group.version"]) == (ErrorCode.NONE, 1)


def test_a_dry_run_changes_nothing() -> None:
    image, response = update(image_of(), ("group.version", 0, SAFE), validate_only=True)
    assert (response.error_code, image.features["group.version"]) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        ("other.version", 1, UPGRADE),
        ("group.version", -1, SAFE),
        ("group.version", 9, UPGRADE),
        ("group.version", 0, UPGRADE),
        ("group.version", 0, 0),
        ("group.version", 0, 9),
        ("metadata.version", 29, SAFE),
        ("metadata.version", 7, UNSAFE),
        ("metadata.version", 6, UNSAFE),
        ("metadata.version", 31, UPGRADE),
        ("kraft.version", 2, UPGRADE),
        ("kraft.version", 1, SAFE),
    ],
)
def test_one_that_cannot_be_made_keeps_all_from_being_made(wrong: Update) -> None:
    before = image_of()
    image, response = update(before, ("share.version", 0, SAFE), wrong)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert wrong[0] in response.error_message
    assert (image.features, response.results) == (before.features, [])


@pytest.mark.parametrize(
    "right", [("group.version", 1, UPGRADE), ("group.version", 1, SAFE), ("kraft.version", 0, SAFE)]
)
def test_the_level_at_which_it_is_may_be_asked_for(right: Update) -> None:
    before = image_of()
    image, response = update(before, right)
    assert (response.error_code, image.features) == (ErrorCode.NONE, before.features)


def test_the_level_of_the_quorum_goes_up_and_never_back() -> None:
    before = image_of()
    image, response = update(before, ("kraft.version", 1, UPGRADE))
    assert (response.error_code, image.features) == (ErrorCode.NONE, before.features), "its record is the quorum's"
    assert update(before, ("kraft.version", 1, UPGRADE), kraft_version=1)[1].error_code == ErrorCode.NONE
    for kind in (SAFE, UNSAFE):
        _image, response = update(before, ("kraft.version", 0, kind), kraft_version=1)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    old = image_of({METADATA_VERSION: 20, ELIGIBLE_LEADER_REPLICAS_VERSION: 0})
    assert update(old, ("kraft.version", 1, UPGRADE))[1].error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_level_goes_up_only_where_everybody_knows_it() -> None:
    low = {**RANGES, "group.version": VersionRange(0, 0)}
    for features in (low, {name: each for name, each in RANGES.items() if name != "group.version"}):
        image = image_of({"group.version": 0})
        image = image._replace(brokers={**image.brokers, 2: broker(2, fenced=True, features=features)})
        assert update(image, ("group.version", 1, UPGRADE))[1].error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(("level", "error"), [(29, ErrorCode.NONE), (22, ErrorCode.INVALID_UPDATE_VERSION)])
def test_metadata_goes_back_as_far_as_it_can_be_read(level: int, error: ErrorCode) -> None:
    _image, response = update(image_of({METADATA_VERSION: 29}), (METADATA_VERSION, level, SAFE))
    assert response.error_code == error


def test_eligible_leaders_need_metadata_that_can_hold_them() -> None:
    old = image_of({METADATA_VERSION: 22, ELIGIBLE_LEADER_REPLICAS_VERSION: 0})
    asked = (ELIGIBLE_LEADER_REPLICAS_VERSION, 1, UPGRADE)
    assert update(old, asked)[1].error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert update(old, asked, (METADATA_VERSION, 30, UPGRADE))[1].error_code == ErrorCode.NONE


def test_with_eligible_leaders_one_minimum_holds_for_all_brokers() -> None:
    image = image_of({ELIGIBLE_LEADER_REPLICAS_VERSION: 0})
    own = {ConfigResource(ResourceType.BROKER, "7"): {"min.insync.replicas": "3", "log.retention.ms": "5"}}
    image, _response = update(image._replace(configs=own), (ELIGIBLE_LEADER_REPLICAS_VERSION, 1, UPGRADE))
    assert image.configs == {
        ConfigResource(ResourceType.BROKER, "7"): {"log.retention.ms": "5"},
        ConfigResource(ResourceType.BROKER, ""): {"min.insync.replicas": "2"},
    }
