"""Carries out what a group member says: sends its requests, finds its coordinator, and gets it the metadata it needs.

Always holds: one request of the member is out at a time, on a connection of its own, so that nothing waits behind a
JoinGroup. A coordinator that is gone is looked for again. The member's failure is the consumer's.
Does not know: what the member decides, or why; when the application polls.
"""

import asyncio
from collections.abc import Callable
from random import Random

from barnabas.client.assignors.exchange import ASSIGNORS
from barnabas.client.cluster import GROUP, Cluster
from barnabas.client.consuming.classic_member import ClassicMember
from barnabas.client.consuming.consumer_member import ConsumerMember
from barnabas.client.consuming.group_member import NEVER_MS, GroupMember, MemberSettings
from barnabas.client.errors import KafkaError, known_code
from barnabas.client.settings import ConsumerConfig
from barnabas.errors import ErrorCode
from barnabas.protocol.message import Message
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.leave_group import LeaveGroupRequest

MEMBERSHIP = "membership"  # the purpose of the connection
UNRESOLVED_MS = 1000  # after which an assigned topic of which nobody has heard is asked for again
PATTERN_VERSION = 1  # of ConsumerGroupHeartbeat: the first that has patterns
MEMBERS_VERSION = 3  # of LeaveGroup: the first with a list of members

NOT_HERE = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


def member_of(config: ConsumerConfig, random: Random) -> GroupMember:
    """The member that the settings of a consumer ask for."""
    assert config.group_id is not None
    settings = MemberSettings(
        group_id=config.group_id,
        instance_id=config.group_instance_id,
        rack=config.client_rack or None,
        max_poll_interval_ms=config.max_poll_interval_ms,
        session_timeout_ms=config.session_timeout_ms,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        assignors=tuple(ASSIGNORS[name] for name in config.partition_assignment_strategy),
        server_assignor=config.group_remote_assignor,
    )
    return ConsumerMember(settings, random) if config.group_protocol == "consumer" else ClassicMember(settings)


class Membership:
    def __init__(
        self,
        member: GroupMember,
        cluster: Cluster,
        *,
        on_change: Callable[[], None],
        on_metadata: Callable[[], None],
    ) -> None:
        self.member = member
        self._cluster = cluster
        self._on_change = on_change  # there may be something to tell the application
        self._on_metadata = on_metadata  # metadata came in
        self._wanted = asyncio.Event()

    def wake(self) -> None:
        """Something happened that may make the member send a request."""
        self._wanted.set()

    def change_done(self) -> None:
        """The application was told of a change, which may make the member send a request."""
        self.member.change_done(self.now_ms())
        self.wake()

    def now_ms(self) -> float:
        return self._cluster.runtime.clock.monotonic_ms()

    async def work(self) -> None:
        member = self.member
        failures = 0
        while member.failure is None:
            self._wanted.clear()
            if self._needs_metadata():
                await self._get_metadata()
                self._tell()
            request = member.next_request(self.now_ms())
            if request is None:
                again_ms = self.now_ms() + UNRESOLVED_MS if self._needs_metadata() else NEVER_MS
                await self._idle(min(member.next_deadline_ms(), again_ms))
                continue
            if await self._carry_out(request):
                failures = 0
            else:
                await self._cluster.runtime.clock.sleep(self._cluster.pause_ms(failures))
                failures += 1
            self._tell()

    def _needs_metadata(self) -> bool:
        return self.member.topics_wanted is not None or bool(self.member.ids_wanted)

    def _tell(self) -> None:
        if self.member.change is not None or self.member.failure is not None:
            self._on_change()

    async def _idle(self, until_ms: float) -> None:
        left_ms = until_ms - self.now_ms()
        if left_ms <= 0:
            return
        try:
            async with asyncio.timeout(None if until_ms == NEVER_MS else left_ms / 1000):
                await self._wanted.wait()
        except TimeoutError:
            return

    async def _carry_out(self, request: Message) -> bool:
        """False where a pause should follow."""
        member, cluster, group_id = self.member, self._cluster, self.member.settings.group_id
        timeout_ms = member.timeout_ms(request, cluster.config.request_timeout_ms)
        try:
            node_id = await cluster.coordinator(GROUP, group_id)
            response = await cluster.request(
                node_id,
                request,
                timeout_ms=timeout_ms,
                purpose=MEMBERSHIP,
                version_min=version_min(request),
            )
        except KafkaError as error:
            cluster.forget_coordinator(GROUP, group_id)
            member.failed(self.now_ms())
            if not error.retriable:
                member.failure = error
                self._on_change()
            return False
        error_code = known_code(response.error_code)
        if error_code in NOT_HERE:
            if error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                cluster.forget_coordinator(GROUP, group_id)
            member.failed(self.now_ms())
            return False
        member.answered(response, self.now_ms())
        return True

    async def _get_metadata(self) -> None:
        """For an assignment, or for the names of what was assigned. What fails now is asked again."""
        topics = self.member.topics_wanted
        names = self._cluster.metadata.names
        if topics is None and all(each in names for each in self.member.ids_wanted):
            self._on_metadata()
            return
        try:
            await self._cluster.refresh(topics)
        except KafkaError as error:
            if not error.retriable:
                raise
            await self._cluster.runtime.clock.sleep(self._cluster.pause_ms(0))
            return
        self._on_metadata()

    async def leave(self, timeout_ms: float) -> None:
        """Says good-bye, once. Whoever cannot be told will notice."""
        request = self.member.leave_request()
        if request is None:
            return
        deadline_ms = self.now_ms() + timeout_ms
        try:
            group_id = self.member.settings.group_id
            node_id = await self._cluster.coordinator(GROUP, group_id, timeout_ms=timeout_ms)
            left_ms = max(deadline_ms - self.now_ms(), 1)
            await self._cluster.request(node_id, request, timeout_ms=left_ms, version_min=version_min(request))
        except KafkaError as error:
            if not error.retriable:
                raise


def version_min(request: Message) -> int:
    """The oldest version that can say what the request says."""
    if isinstance(request, LeaveGroupRequest):
        return MEMBERS_VERSION
    has_pattern = isinstance(request, ConsumerGroupHeartbeatRequest) and request.subscribed_topic_regex
    return PATTERN_VERSION if has_pattern else 0
