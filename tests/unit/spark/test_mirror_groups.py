"""Offsets of groups at the copy: which are committed, and which failures are none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import cast

import pytest

from barnabas.client.admin import Admin
from barnabas.client.admin.results import Results
from barnabas.client.errors import KafkaError, error_of
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.errors import ErrorCode
from barnabas.spark.pipelines.mirror import _commit
from barnabas.types import TopicPartition

FIRST, SECOND = TopicPartition("copy", 0), TopicPartition("copy", 1)


class Target:
    """A cluster in which the group is at offset 5 of the first partition."""

    def __init__(self, code: ErrorCode) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self._code = code

    async def list_consumer_group_offsets(
        self, _group_id: str, _partitions: object
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return {FIRST: OffsetAndMetadata(5, ""), SECOND: None}

    async def alter_consumer_group_offsets(
        self, _group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> Results[TopicPartition, None]:
        if self._code != ErrorCode.NONE:
            return Results({}, {each: error_of(self._code) for each in offsets})
        self.committed = {each: offset.offset for each, offset in offsets.items()}
        return Results(dict.fromkeys(offsets))


def commit(target: Target) -> int:
    offsets = {FIRST: OffsetAndMetadata(4, ""), SECOND: OffsetAndMetadata(3, "")}
    return asyncio.run(_commit(cast("Admin", target), "group", offsets))


def test_offsets_never_go_back() -> None:
    target = Target(ErrorCode.NONE)
    assert commit(target) == 1
    assert target.committed == {SECOND: 3}


def test_a_group_with_members_is_left_alone() -> None:
    assert commit(Target(ErrorCode.UNKNOWN_MEMBER_ID)) == 0


def test_any_other_failure_is_told() -> None:
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        commit(Target(ErrorCode.GROUP_AUTHORIZATION_FAILED))
