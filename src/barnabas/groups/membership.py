"""Who belongs to a classic group, who leads it, and which protocols they share.

Always holds: the leader is one of the members, where there are any. An instance id belongs to one member.
Does not know: states, generations, time.
"""

from collections.abc import Iterable, Iterator, Sequence

from barnabas.errors import ErrorCode
from barnabas.groups.classic_member import ClassicMember
from barnabas.groups.classic_state import join_failed
from barnabas.groups.outcome import Draft, Pending
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


class Membership:
    __slots__ = ("_by_id", "_static", "_supported", "expected", "joined_count", "leader", "unsynced")

    def __init__(self) -> None:
        self._by_id: dict[str, ClassicMember] = {}  # in the order of joining
        self._static: dict[str, str] = {}  # member ids by instance id
        self._supported: dict[str, int] = {}  # by how many members, for each protocol; never 0
        self.leader: str | None = None
        self.expected: dict[str, None] = {}  # ids that were given out, whose owners have not joined with them yet
        self.unsynced: dict[str, None] = {}  # members that have not asked for their part of this generation
        self.joined_count = 0  # members whose `joining` is set

    # Looking

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self._by_id.values())

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._by_id

    def __getitem__(self, member_id: str) -> ClassicMember:
        return self._by_id[member_id]

    def get(self, member_id: str) -> ClassicMember | None:
        return self._by_id.get(member_id)

    def ids(self) -> Sequence[str]:
        return list(self._by_id)

    def static_id(self, instance_id: str) -> str | None:
        """The member that goes by this instance id."""
        return self._static.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member, and, of a static one, the process that came last."""
        if instance_id is not None:
            known = self._static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self._by_id else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def all_joined(self) -> bool:
        return self.joined_count == len(self._by_id) and not self.expected

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def share_one_of(self, names: Iterable[str]) -> bool:
        """Whether all can follow one of these protocols."""
        return any(self._supported.get(name, 0) == len(self._by_id) for name in names)

    def select_protocol(self, former: ClassicMember | None = None, member: ClassicMember | None = None) -> str:
        """Each member votes for its favourite among those that all can follow.

        With `former` and `member`, as it would be if the one took the place of the other.
        """
        members = [each for each in self if each is not former]
        if member is not None:
            members.append(member)
        supporters: dict[str, int] = {}
        for each in members:
            for name, _metadata in each.protocols:
                supporters[name] = supporters.get(name, 0) + 1
        candidates = {name for name, count in supporters.items() if count == len(members)}
        votes: dict[str, int] = {}
        for each in members:
            name = each.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=votes.__getitem__)

    # Coming, changing and going

    def add(self, member: ClassicMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self._static
            self._static[member.instance_id] = member.member_id
        assert member.joining is None
        self._by_id[member.member_id] = member
        self.count_protocols(member, 1)
        self.leader = self.leader or member.member_id
        self.expected.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Forgets the id, whether it was a member's or only given out."""
        member = self._by_id.pop(member_id, None)
        if member is not None:
            assert member.joining is None, "whoever waits is answered first"
            self.count_protocols(member, -1)
            if member.instance_id is not None:
                del self._static[member.instance_id]
            if self.leader == member_id:
                self.leader = next(iter(self._by_id), None)
        self.expected.pop(member_id, None)
        self.unsynced.pop(member_id, None)

    def replace(self, former: ClassicMember, member: ClassicMember) -> None:
        """A static member comes back as another process: what it had, it keeps."""
        leads = self.leader == former.member_id
        was_unsynced = former.member_id in self.unsynced
        self.remove(former.member_id)
        self.add(member)
        if leads:
            self.leader = member.member_id
        if was_unsynced:
            self.unsynced[member.member_id] = None

    def update(self, member: ClassicMember, request: JoinGroupRequest) -> None:
        self.count_protocols(member, -1)
        member.update(request)
        self.count_protocols(member, 1)

    def count_protocols(self, member: ClassicMember, step: int) -> None:
        for name, _metadata in member.protocols:
            count = self._supported.get(name, 0) + step
            if count:
                self._supported[name] = count
            else:
                del self._supported[name]

    # Waiting

    def wait_to_join(self, member: ClassicMember, pending: Pending, draft: Draft) -> None:
        if member.joining is not None:  # it asked before, and has perhaps lost its connection since
            self.answer_join(member, join_failed(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS), draft)
        member.joining = pending
        self.joined_count += 1

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse, draft: Draft) -> None:
        if member.joining is not None:
            draft.answer(member.joining, response)
            member.joining = None
            self.joined_count -= 1

    def elect_joined_leader(self) -> bool:
        """The leader stays, unless it is away: then the first who has joined leads. False where nobody has."""
        if self.leader is not None and self._by_id[self.leader].joining is not None:
            return True
        joined = next((member.member_id for member in self if member.joining is not None), None)
        if joined is not None:
            self.leader = joined
        return joined is not None
