"""One member of a classic group, and the protocols that it can follow."""

from collections.abc import Collection

from barnabas.groups.outcome import Client, Pending
from barnabas.protocol.messages.describe_groups import DescribedGroupMember
from barnabas.protocol.messages.group_metadata_value import MemberMetadata
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol

Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, the preferred first


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """A name that comes twice counts once."""
    protocols: list[JoinGroupRequestProtocol] = request.protocols
    return tuple({each.name: each.metadata for each in reversed(protocols)}.items())[::-1]


class ClassicMember:
    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id  # None: a dynamic member
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols  # after a reload only the chosen one: the log has no other
        self.assignment = assignment  # of the generation that was last stable
        self.joining: Pending | None = None  # has joined the generation to come
        self.syncing: Pending | None = None  # waits for its assignment
        self.is_new = False  # until the first rebalance that it joined has ended

    @classmethod
    def of_request(cls, request: JoinGroupRequest, client: Client, member_id: str) -> "ClassicMember":
        return cls(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=client.client_id,
            client_host=client.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols_of(request),
        )

    @classmethod
    def of_record(cls, value: MemberMetadata, protocol: str | None) -> "ClassicMember":
        return cls(
            member_id=value.member_id,
            instance_id=value.group_instance_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms(value),
            session_timeout_ms=value.session_timeout,
            protocols=((protocol or "", value.subscription),),
            assignment=value.assignment,
        )

    def record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    def adopt(self, value: MemberMetadata, protocol: str | None) -> None:
        """What the log says of this member. Other protocols that it can follow stay known where they still fit."""
        self.instance_id = value.group_instance_id
        self.client_id = value.client_id
        self.client_host = value.client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms(value)
        self.session_timeout_ms = value.session_timeout
        self.assignment = value.assignment
        chosen = (protocol or "", value.subscription)
        if chosen not in self.protocols:
            self.protocols = (chosen,)

    def renamed(self, member_id: str) -> "ClassicMember":
        return ClassicMember(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            protocols=self.protocols,
            assignment=self.assignment,
        )

    def update(self, request: JoinGroupRequest) -> None:
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.protocols = protocols_of(request)

    def metadata(self, protocol: str) -> bytes:
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name, _metadata in self.protocols if name in candidates)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """It waits for an answer and so cannot send heartbeats. A new member has a deadline all the same."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)

    def describe(self, protocol: str | None) -> DescribedGroupMember:
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=b"" if protocol is None else self.metadata(protocol),
            member_assignment=self.assignment,
        )


def rebalance_timeout_ms(value: MemberMetadata) -> int:
    """The oldest records have none: then, as now for the oldest clients, it is the session timeout."""
    return value.session_timeout if value.rebalance_timeout == -1 else value.rebalance_timeout
