"""The records of `__consumer_offsets`: which types there are.

Does not know: what a record means. That is `apply` of each kind of group.
"""

from barnabas.coordination.records import CoordinatorRecord as GroupRecord
from barnabas.coordination.records import RecordTypes, encode

__all__ = ["GroupRecord", "decode", "encode"]

OFFSET_COMMIT_LEGACY = 0  # written by brokers of long ago: the same layout, and read as OFFSET_COMMIT
OFFSET_COMMIT = 1
GROUP_METADATA = 2
CONSUMER_GROUP_METADATA = 3
CONSUMER_GROUP_PARTITION_METADATA = 4
CONSUMER_GROUP_MEMBER_METADATA = 5
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
CONSUMER_GROUP_REGULAR_EXPRESSION = 16

_MODULES = {
    OFFSET_COMMIT_LEGACY: "offset_commit",
    OFFSET_COMMIT: "offset_commit",
    GROUP_METADATA: "group_metadata",
    CONSUMER_GROUP_METADATA: "consumer_group_metadata",
    CONSUMER_GROUP_PARTITION_METADATA: "consumer_group_partition_metadata",
    CONSUMER_GROUP_MEMBER_METADATA: "consumer_group_member_metadata",
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: "consumer_group_target_assignment_metadata",
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: "consumer_group_target_assignment_member",
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: "consumer_group_current_member_assignment",
    CONSUMER_GROUP_REGULAR_EXPRESSION: "consumer_group_regular_expression",
}
decode = RecordTypes(_MODULES).decode
