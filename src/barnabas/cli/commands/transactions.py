"""`barnabas transactions`: who has one open, and which nobody ends any more."""

import time
from typing import Annotated, Any

import typer

from barnabas.cli import output
from barnabas.cli.app import noun, verb
from barnabas.cli.moments import iso
from barnabas.cli.options import USUAL_CONNECTION, Connection, Json
from barnabas.cli.session import chosen_partitions, complete_topics, existing_brokers, exit_code, failures, with_admin
from barnabas.cli.text import CommandFailed, Exit, suggestion
from barnabas.client.admin import Admin, Results
from barnabas.client.admin.transactions import AbortSpec, HangingTransaction, ProducerDescription
from barnabas.errors import ErrorCode
from barnabas.types import TopicPartition

app = noun("Lists, describes and ends transactions.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", autocompletion=complete_topics)]
Partition = Annotated[int, typer.Option("--partition", min=0, metavar="N", help="Number of the partition.")]


@verb(
    app,
    "barnabas transactions list",
    "barnabas transactions list --state Ongoing --running-longer-than-ms 60000",
    name="list",
)
def list_transactions(
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only in this state; may be repeated.")
    ] = None,
    longer_than_ms: Annotated[
        int | None, typer.Option("--running-longer-than-ms", min=0, metavar="MS", help="Only those open so long.")
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--transactional-id-pattern", metavar="REGEX", help="Only ids that match.")
    ] = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Lists transactions."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        listed = await admin.list_transactions(states=state or (), duration_ms=longer_than_ms, pattern=pattern)
        rows = [
            {**output.plain(each), "coordinator": node_id}
            for node_id, found in listed.unwrap().items()
            for each in found
        ]
        return sorted(rows, key=lambda row: str(row["transactional_id"]))

    rows = with_admin(connection, work)
    if json:
        output.document({"transactions": rows})
    else:
        columns = ("transactional_id", "coordinator", "producer_id", "state")
        titles = [each.replace("_", " ") for each in columns]
        output.table(titles, ([row[each] for each in columns] for row in rows), empty="there are no transactions")
    return Exit.DONE


@verb(app, "barnabas transactions describe billing-1")
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="The transactional id.")],
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Describes what a transactional id has open."""

    async def work(admin: Admin) -> dict[str, Any]:
        results = await admin.describe_transactions([transactional_id])
        error = results.failed.get(transactional_id)
        if error is not None and error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise await _missing(admin, transactional_id)
        facts: dict[str, Any] = output.plain(results.one(transactional_id))
        return facts

    facts = with_admin(connection, work)
    if json:
        output.document(facts)
        return Exit.DONE
    for name, value in facts.items():
        if name == "partitions":
            value = " ".join(f"{each['topic']}-{each['partition']}" for each in value) or None
        elif name == "start_time_ms" and value is not None:
            value = f"{value} ({iso(value)})"
        print(f"{name.replace('_', ' ')}: {output.cell(value)}")
    return Exit.DONE


async def _missing(admin: Admin, name: str) -> CommandFailed:
    listed = (await admin.list_transactions()).done
    known = [each.transactional_id for found in listed.values() for each in found]
    hint = suggestion(name, known) or "; barnabas transactions list shows which there are"
    return CommandFailed(f"there is no transactional id {name}{hint}", Exit.NOT_FOUND)


@verb(app, "barnabas transactions describe-producers orders --partition 0", name="describe-producers")
def describe_producers(
    topic: Topic,
    partition: Partition = 0,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", metavar="N", help="Ask this replica and not the leader.")
    ] = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Describes who has written to a partition of late."""
    key = TopicPartition(topic, partition)

    async def work(admin: Admin) -> list[ProducerDescription]:
        await chosen_partitions(admin, [f"{topic}:{partition}"])
        await existing_brokers(admin, [] if broker_id is None else [broker_id])
        return (await admin.describe_producers([key], broker_id=broker_id)).one(key)

    producers = with_admin(connection, work)
    if json:
        output.document({"topic": topic, "partition": partition, "producers": producers})
    else:
        rows = [output.plain(each) for each in producers]
        titles = list(rows[0]) if rows else []
        empty = "no producer with an id has written there of late"
        output.table([each.replace("_", " ") for each in titles], [list(row.values()) for row in rows], empty=empty)
    return Exit.DONE


@verb(
    app,
    "barnabas transactions find-hanging",
    "barnabas transactions find-hanging --topic orders --partition 0",
    name="find-hanging",
)
def find_hanging(
    topic: Annotated[
        str | None,
        typer.Option("--topic", metavar="TOPIC", help="Only in this topic.", autocompletion=complete_topics),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, metavar="N", help="Only in this one.")] = None,
    broker_id: Annotated[
        int | None, typer.Option("--broker-id", metavar="N", help="Only in replicas of this broker.")
    ] = None,
    max_timeout_minutes: Annotated[
        int,
        typer.Option(
            "--max-transaction-timeout",
            metavar="MINUTES",
            min=0,
            help="transaction.max.timeout.ms of the cluster, in minutes: what is younger cannot hang.",
        ),
    ] = 15,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Finds transactions that nobody ends any more.

    A partition has them open and no coordinator knows of them: readers of committed records wait there for ever. Ends
    with 1 where some are found; `abort` ends them.
    """
    if partition is not None and topic is None:
        raise CommandFailed("--partition needs --topic", Exit.USAGE)

    async def work(admin: Admin) -> list[HangingTransaction]:
        if topic is not None:
            texts = [topic if partition is None else f"{topic}:{partition}"]
        else:
            texts = [each.name for each in await admin.list_topics(internal=True)]
        partitions = await chosen_partitions(admin, texts)
        if broker_id is not None:
            await existing_brokers(admin, [broker_id])
            described = (await admin.describe_topics({each.topic for each in partitions})).unwrap()
            there = {
                TopicPartition(name, each.partition)
                for name, found in described.items()
                for each in found.partitions
                if broker_id in each.replicas
            }
            partitions = [each for each in partitions if each in there]
        limit_ms = max_timeout_minutes * 60_000
        return await admin.find_hanging_transactions(
            partitions, max_transaction_timeout_ms=limit_ms, broker_id=broker_id
        )

    found = with_admin(connection, work)
    rows = [_hanging(each) for each in found]
    if json:
        output.document({"hanging": rows})
    else:
        titles = list(rows[0]) if rows else []
        output.table(
            [each.replace("_", " ") for each in titles], [list(row.values()) for row in rows], empty="none hangs"
        )
    return Exit.FAILED if found else Exit.DONE


def _hanging(found: HangingTransaction) -> dict[str, Any]:
    producer = found.producer
    return {
        "topic": found.topic_partition.topic,
        "partition": found.topic_partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "start_offset": producer.transaction_start_offset,
        "last_timestamp_ms": producer.last_timestamp_ms,
        "minutes": max(int(time.time() * 1000) - producer.last_timestamp_ms, 0) // 60_000,
    }


@verb(
    app,
    "barnabas transactions abort orders --partition 0 --start-offset 4711",
    "barnabas transactions abort orders --partition 0 --producer-id 7 --producer-epoch 0 --coordinator-epoch 3",
)
def abort(
    topic: Topic,
    partition: Partition = 0,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, metavar="N", help="Where the transaction begins.")
    ] = None,
    producer_id: Annotated[int | None, typer.Option("--producer-id", metavar="N", help="Who has it open.")] = None,
    producer_epoch: Annotated[int | None, typer.Option("--producer-epoch", metavar="N", help="In which epoch.")] = None,
    coordinator_epoch: Annotated[
        int | None, typer.Option("--coordinator-epoch", metavar="N", help="Of the last marker; -1 where none was.")
    ] = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Aborts a hanging transaction in one partition.

    Its coordinator is not asked. Name it by --start-offset, or by all three of producer and coordinator.
    """
    key = TopicPartition(topic, partition)
    given = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == all(each is None for each in given) or (start_offset is None and None in given):
        message = "name it by --start-offset, or by --producer-id, --producer-epoch and --coordinator-epoch"
        raise CommandFailed(message, Exit.USAGE)

    async def work(admin: Admin) -> AbortSpec:
        await chosen_partitions(admin, [f"{topic}:{partition}"])
        if start_offset is None:
            spec = AbortSpec(key, producer_id or 0, producer_epoch or 0, max(coordinator_epoch or 0, 0))
        else:
            spec = await _beginning_at(admin, key, start_offset)
        await admin.abort_transaction(spec)
        return spec

    spec = with_admin(connection, work)
    if json:
        output.document({"aborted": {**spec._asdict(), "topic_partition": key._asdict()}})
    else:
        print(f"aborted: the transaction of producer {spec.producer_id} in {key}")
    return Exit.DONE


async def _beginning_at(admin: Admin, key: TopicPartition, start_offset: int) -> AbortSpec:
    producers = (await admin.describe_producers([key])).one(key)
    for each in producers:
        if each.transaction_start_offset == start_offset:
            return AbortSpec(key, each.producer_id, each.producer_epoch, each.coordinator_epoch or 0)
    starts = sorted(each.transaction_start_offset for each in producers if each.transaction_start_offset is not None)
    known = f"open ones begin at {', '.join(map(str, starts))}" if starts else "none is open there"
    raise CommandFailed(f"no open transaction begins at offset {start_offset} of {key}; {known}", Exit.NOT_FOUND)


@verb(app, "barnabas transactions fence billing-1")
def fence(
    transactional_ids: Annotated[list[str], typer.Argument(metavar="ID", help="Transactional ids.")],
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Aborts what transactional ids have open, and shuts out who uses them now."""

    async def work(admin: Admin) -> Results[str, Any]:
        described = await admin.describe_transactions(transactional_ids)
        for name, error in described.failed.items():
            if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise await _missing(admin, name)
        return await admin.fence_producers(transactional_ids)

    results = with_admin(connection, work)
    if json:
        output.document({"fenced": results.done, "failed": failures(results)})
    else:
        for name in results.done:
            print(f"fenced: {name}")
    return exit_code([results])
