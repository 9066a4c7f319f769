"""Feature levels: which ones this version can work at, and at which ones a new cluster starts.

Always holds: every level at which a new cluster starts lies within what is supported.
"""

from collections.abc import Mapping
from typing import NamedTuple

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"


class SupportedFeature(NamedTuple):
    name: str
    min_version: int
    max_version: int


# As Kafka 4.3.1 registers and formats them. kraft.version is no FeatureLevelRecord: a quorum with static voters is at
# level 0, and later levels are control records of the quorum itself (KIP-853).
SUPPORTED = (
    SupportedFeature(ELIGIBLE_LEADER_REPLICAS_VERSION, 0, 1),
    SupportedFeature(GROUP_VERSION, 0, 1),
    SupportedFeature(KRAFT_VERSION, 0, 1),
    SupportedFeature(METADATA_VERSION, 7, 30),
    SupportedFeature("share.version", 0, 1),
    SupportedFeature("streams.version", 0, 1),
    SupportedFeature("transaction.version", 0, 2),
)

AT_FORMAT: Mapping[str, int] = {
    METADATA_VERSION: 30,
    ELIGIBLE_LEADER_REPLICAS_VERSION: 1,
    GROUP_VERSION: 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
