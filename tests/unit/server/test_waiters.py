"""Who waits for an offset is told once; who gave up is forgotten."""

import asyncio

from barnabas.errors import ErrorCode
from barnabas.server.replicas.waiters import SWEPT_MIN, Waiters


def test_those_are_told_whose_offset_is_reached() -> None:
    async def test() -> None:
        for is_ordered in (True, False):
            waiters = Waiters(is_ordered=is_ordered)
            first, second = waiters.wait_for(1), waiters.wait_for(2)
            waiters.reached(1)
            assert (first.result(), second.done()) == (ErrorCode.NONE, False)
            waiters.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            assert second.result() == ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(test())


def test_without_an_order_a_lower_offset_behind_a_higher_one_is_told() -> None:
    async def test() -> None:
        waiters = Waiters(is_ordered=False)
        later, sooner = waiters.wait_for(9), waiters.wait_for(2)
        waiters.reached(5)
        assert (later.done(), sooner.done()) == (False, True)
        assert len(waiters) == 1

    asyncio.run(test())


def test_those_who_gave_up_do_not_pile_up() -> None:
    async def test() -> None:
        waiters = Waiters(is_ordered=True)
        patient = waiters.wait_for(0)
        for offset in range(100 * SWEPT_MIN):
            waiters.wait_for(offset).cancel()
        assert len(waiters) <= 2 * SWEPT_MIN
        waiters.reached(100 * SWEPT_MIN)
        assert patient.result() == ErrorCode.NONE

    asyncio.run(test())
