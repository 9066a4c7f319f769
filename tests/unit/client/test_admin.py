"""How an Admin asks again, what it says of each thing, and which transactions it calls hanging."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.client.admin import Admin, Results
from barnabas.client.admin.transactions import ProducerDescription, TransactionDescription, TransactionListing
from barnabas.client.connection import ConnectionLost
from barnabas.client.errors import KafkaError, KafkaTimeoutError, UnknownTopicError, error_of
from barnabas.errors import ErrorCode
from barnabas.types import TopicPartition

NODE = 1


@pytest.mark.parametrize(
    "method",
    ["create_topics", "delete_topics", "describe_topics", "describe_groups", "delete_groups", "fence_producers"],
)
def test_a_text_is_no_list_of_names(method: str) -> None:
    """Else `delete_topics("abc")` deletes a, b and c."""
    admin = Admin(bootstrap_servers="localhost:1")
    with pytest.raises(TypeError, match="must be a list, not the text 'abc'"):
        asyncio.run(getattr(admin, method)("abc"))
    with pytest.raises(TypeError, match=r"must be a NewTopic\(name='abc'\), not str"):
        asyncio.run(admin.create_topics(["abc"]))  # type: ignore[list-item]


def run(
    items: list[str], answers: dict[str, list[ErrorCode | Exception]], **options: Any
) -> tuple[Any, list[list[str]]]:
    """Asks about items, of which each fails as its list says before it succeeds; the results and who was asked when."""
    asked: list[list[str]] = []

    async def route(keys: list[str]) -> tuple[dict[int, list[str]], dict[str, KafkaError]]:
        return {NODE: keys}, {}

    async def ask(_node_id: int, keys: list[str]) -> Results[str, str]:
        asked.append(keys)
        found: Results[str, str] = Results()
        for key in keys:
            failures = answers.get(key, [])
            failure = failures.pop(0) if failures else ErrorCode.NONE
            if isinstance(failure, Exception):
                raise failure
            found.add(key, failure, f"done {key}", about=key)
        return found

    async def scenario() -> Results[str, str]:
        admin = Admin(bootstrap_servers="localhost:9092", retry_backoff_ms=1, retry_backoff_max_ms=2)
        return await admin.carry_out(items, route, ask, what="trying", **options)

    return asyncio.run(scenario()), asked


def test_only_what_may_pass_is_asked_again() -> None:
    results, asked = run(
        ["late", "fine", "never"],
        {"late": [ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER], "never": [ErrorCode.INVALID_CONFIG]},
    )
    assert asked == [["late", "fine", "never"], ["late"], ["late"]]
    assert list(results.done.items()) == [("late", "done late"), ("fine", "done fine")], "in the order of the question"
    assert results.failed["never"].code == ErrorCode.INVALID_CONFIG


def test_a_lost_connection_is_tried_again_for_all() -> None:
    results, asked = run(["a", "b"], {"a": [ConnectionLost("gone")]})
    assert len(asked) == 2
    assert set(results.done) == {"a", "b"}


def test_time_runs_out_for_each_by_itself() -> None:
    results, _asked = run(["fine", "late"], {"late": [ErrorCode.NOT_COORDINATOR] * 1000}, timeout_ms=50)
    assert results.done == {"fine": "done fine"}
    error = results.failed["late"]
    assert isinstance(error, KafkaTimeoutError)
    assert "trying: not within 50 ms" in str(error)
    assert error.__cause__ is not None
    with pytest.raises(KafkaTimeoutError):
        results.unwrap()


def test_topics_that_stay_unknown_do_not_exist() -> None:
    results, asked = run(["t"], {"t": [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 1000}, timeout_ms=50)
    assert isinstance(results.failed["t"], UnknownTopicError)
    assert len(asked) > 1, "a topic made a moment ago may not be known everywhere yet"


def test_results() -> None:
    results = Results({"a": 1}, {"b": error_of(ErrorCode.GROUP_ID_NOT_FOUND)})
    assert results.one("a") == 1
    assert results.map(str).done == {"a": "1"}
    with pytest.raises(KafkaError, match="there is no such group"):
        results.one("b")
    assert Results({"a": 1}).unwrap() == {"a": 1}


OPEN, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster(Admin):
    """Two partitions with an open transaction each, by producers 5 and 6; what coordinators know is given."""

    def __init__(self, known: dict[int, tuple[str, tuple[TopicPartition, ...]]], missing: tuple[str, ...] = ()) -> None:
        super().__init__(bootstrap_servers="localhost:9092")
        self.known = known
        self.missing = missing

    async def describe_producers(self, partitions: Any, **_options: Any) -> Any:
        def producer(producer_id: int, start_offset: int | None, last_ms: int) -> ProducerDescription:
            return ProducerDescription(
                producer_id=producer_id,
                producer_epoch=0,
                last_sequence=0,
                last_timestamp_ms=last_ms,
                coordinator_epoch=None,
                transaction_start_offset=start_offset,
            )

        young = self.cluster.runtime.clock.now_ms()
        return Results(
            {OPEN: [producer(5, 10, 0), producer(7, None, 0), producer(8, 20, young)], OTHER: [producer(6, 3, 0)]}
        )

    async def list_transactions(self, **_options: Any) -> Any:
        listings = [
            TransactionListing(transactional_id=name, producer_id=number, state="Ongoing")
            for number, (name, _partitions) in self.known.items()
        ]
        return Results({1: listings})

    async def describe_transactions(self, transactional_ids: Any, **_options: Any) -> Any:
        found: Results[str, TransactionDescription] = Results()
        for number, (name, partitions) in self.known.items():
            description = TransactionDescription(
                transactional_id=name,
                coordinator=1,
                state="Ongoing",
                producer_id=number,
                producer_epoch=0,
                timeout_ms=1,
                start_time_ms=0,
                partitions=partitions,
            )
            code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if name in self.missing else ErrorCode.NONE
            found.add(name, code, description)
        return found


@pytest.mark.parametrize(
    ("known", "missing", "hanging"),
    [
        ({}, (), [5, 6]),
        ({5: ("five", (OPEN,))}, (), [6]),
        ({5: ("five", (OPEN,)), 6: ("six", (OTHER,))}, (), []),
        ({5: ("five", (OTHER,)), 6: ("six", (OTHER,))}, (), [5]),
        ({5: ("five", (OPEN,)), 6: ("six", (OTHER,))}, ("six",), [6]),
    ],
)
def test_hanging_is_what_no_coordinator_will_end(known: Any, missing: tuple[str, ...], hanging: list[int]) -> None:
    async def scenario() -> list[int]:
        found = await Cluster(known, missing).find_hanging_transactions([OPEN, OTHER])
        return [each.producer.producer_id for each in found]

    assert asyncio.run(scenario()) == hanging


def test_a_broker_that_does_not_answer_takes_nothing_from_the_others() -> None:
    async def route(keys: list[str]) -> tuple[dict[int, list[str]], dict[str, KafkaError]]:
        return {number: [key] for number, key in enumerate(keys)}, {}

    async def ask(node_id: int, keys: list[str]) -> Results[str, str]:
        if node_id == 1:
            await asyncio.Event().wait()
        return Results({key: f"done {key}" for key in keys})

    async def scenario() -> None:
        admin = Admin(bootstrap_servers="localhost:9092")
        found = await admin.carry_out(["a", "b", "c"], route, ask, what="trying", timeout_ms=20)
        assert found.done == {"a": "done a", "c": "done c"}
        assert isinstance(found.failed["b"], KafkaTimeoutError)

    asyncio.run(scenario())


@pytest.mark.parametrize("method", ["list_groups", "list_transactions", "describe_log_dirs"])
def test_the_time_of_a_question_to_all_includes_the_list_of_them(method: str) -> None:
    async def scenario() -> None:
        admin = Admin(bootstrap_servers="localhost:9092")

        async def never(*_topics: object, **_options: object) -> None:
            await asyncio.Event().wait()

        admin.cluster.refresh = never  # type: ignore[method-assign]
        with pytest.raises(KafkaTimeoutError):
            await getattr(admin, method)(timeout_ms=20)

    asyncio.run(asyncio.wait_for(scenario(), 10))
