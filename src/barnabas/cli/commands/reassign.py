"""`barnabas reassign`: moves replicas between brokers, by plans in the form of Kafka's own tool."""

import json as json_codec
from pathlib import Path
from typing import Annotated, Any

import typer

from barnabas.cli import output
from barnabas.cli.app import noun, verb
from barnabas.cli.options import USUAL_CONNECTION, Connection, Json
from barnabas.cli.session import chosen_partitions, complete_topics, existing_brokers, exit_code, failures, with_admin
from barnabas.cli.text import CommandFailed, Exit
from barnabas.client.admin import Admin, Results
from barnabas.client.admin.placement import ElectionType, Reassignment
from barnabas.client.admin.topics import TopicDescription
from barnabas.errors import ErrorCode
from barnabas.types import BrokerId, TopicPartition

app = noun("Moves replicas between brokers, and leadership between replicas.")

PLAN_VERSION = 1  # of the form of plans, as Kafka's tool has it
Plan = dict[TopicPartition, list[BrokerId]]
PlanFile = Annotated[Path, typer.Argument(metavar="FILE", help="A plan in JSON, as Kafka's own tool has it.")]


@verb(app, "barnabas reassign list", "barnabas reassign list --json", name="list")
def list_reassignments(
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Lists what is being moved."""

    async def work(admin: Admin) -> dict[TopicPartition, Reassignment]:
        return await admin.list_partition_reassignments()

    found = with_admin(connection, work)
    if json:
        rows = [{"topic": key.topic, "partition": key.partition, **output.plain(each)} for key, each in found.items()]
        output.document({"reassignments": rows})
    else:
        lines = ((key.topic, key.partition, each.replicas, each.adding, each.removing) for key, each in found.items())
        titles = ("topic", "partition", "replicas", "adding", "removing")
        output.table(titles, lines, empty="nothing is being moved")
    return Exit.DONE


@verb(
    app,
    "barnabas reassign generate orders payments --broker-list 1,2,3 > plan.json",
    "barnabas reassign generate orders --broker-list 1,2,3 --replication-factor 3",
)
def generate(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Topics.", autocompletion=complete_topics)],
    broker_list: Annotated[
        str, typer.Option("--broker-list", metavar="1,2,3", help="Brokers that are to have the replicas.")
    ],
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", min=1, metavar="N", help="Replicas of each; else as now.")
    ] = None,
    connection: Connection = USUAL_CONNECTION,
) -> int:
    """Prints a plan that spreads topics over brokers.

    Replicas stay where they are as far as that keeps the brokers even. Nothing is moved: `execute` does it.
    """
    brokers = _brokers(broker_list)

    async def work(admin: Admin) -> Plan:
        await chosen_partitions(admin, topics)
        await existing_brokers(admin, brokers)
        described = (await admin.describe_topics(topics)).unwrap()
        return spread(list(described.values()), brokers, replication_factor)

    print(json_codec.dumps(_document(with_admin(connection, work))))
    return Exit.DONE


def spread(topics: list[TopicDescription], brokers: list[BrokerId], replication_factor: int | None) -> Plan:
    """Each partition keeps the replicas that it has there, least loaded brokers fill up, and leaders take turns."""
    load = dict.fromkeys(brokers, 0)
    leads = dict.fromkeys(brokers, 0)
    plan: Plan = {}
    total = sum(len(topic.partitions) * (replication_factor or topic.replication_factor) for topic in topics)
    room = -(-total // len(brokers))
    for topic in topics:
        wanted = replication_factor or topic.replication_factor
        if wanted > len(brokers):
            raise CommandFailed(f"{wanted} replicas of {topic.name} need as many brokers; {len(brokers)} are named")
        for partition in topic.partitions:
            chosen = [each for each in partition.replicas if each in load and load[each] < room][:wanted]
            others = sorted((each for each in brokers if each not in chosen), key=lambda each: (load[each], each))
            chosen += others[: wanted - len(chosen)]
            for each in chosen:
                load[each] += 1
            chosen.sort(key=lambda each: leads[each])
            leads[chosen[0]] += 1
            plan[TopicPartition(topic.name, partition.partition)] = chosen
    return plan


@verb(app, "barnabas reassign execute plan.json", "barnabas reassign execute plan.json --json")
def execute(
    file: PlanFile,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Begins to move replicas as a plan says.

    Before that it prints the plan that would undo it, with --json as `before`. `verify` says when it is done.
    """
    plan = _read(file)

    async def work(admin: Admin) -> tuple[Plan, Results[TopicPartition, None]]:
        await chosen_partitions(admin, {key.topic for key in plan})
        described = (await admin.describe_topics({key.topic for key in plan})).unwrap()
        before = {
            TopicPartition(topic.name, each.partition): list(each.replicas)
            for topic in described.values()
            for each in topic.partitions
        }
        undo = {key: before[key] for key in plan if key in before}
        return undo, await admin.alter_partition_reassignments(plan)

    undo, results = with_admin(connection, work)
    if json:
        output.document({"before": _document(undo), "started": _names(results.done), "failed": failures(results)})
    else:
        print(json_codec.dumps(_document(undo)))
        output.note(f"{len(results.done)} of {len(plan)} begun; the plan above would undo it")
    return exit_code([results])


@verb(app, "barnabas reassign verify plan.json")
def verify(
    file: PlanFile,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Says of each partition in a plan whether it is where it should be.

    Ends with 1 while something is missing.
    """
    plan = _read(file)

    async def work(admin: Admin) -> list[tuple[TopicPartition, str]]:
        await chosen_partitions(admin, {key.topic for key in plan})
        moving = await admin.list_partition_reassignments(list(plan))
        described = (await admin.describe_topics({key.topic for key in plan})).unwrap()
        found = {
            TopicPartition(topic.name, each.partition): list(each.replicas)
            for topic in described.values()
            for each in topic.partitions
        }
        return [
            (key, "moving" if key in moving else "done" if found.get(key) == replicas else "elsewhere")
            for key, replicas in plan.items()
        ]

    states = with_admin(connection, work)
    if json:
        rows = [{"topic": key.topic, "partition": key.partition, "state": state} for key, state in states]
        output.document({"partitions": rows, "done": all(state == "done" for _key, state in states)})
    else:
        output.table(("topic", "partition", "state"), ((key.topic, key.partition, state) for key, state in states))
    return Exit.DONE if all(state == "done" for _key, state in states) else Exit.FAILED


@verb(app, "barnabas reassign cancel plan.json")
def cancel(
    file: PlanFile,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Stops moving the partitions of a plan; they return to where they were."""
    plan = _read(file)

    async def work(admin: Admin) -> Results[TopicPartition, None]:
        return await admin.alter_partition_reassignments(dict.fromkeys(plan))

    results = with_admin(connection, work)
    idle = _needless(results, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if json:
        output.document({"cancelled": _names(results.done), "idle": _names(idle), "failed": failures(results)})
    else:
        print(f"{len(results.done)} cancelled, {len(idle)} were not being moved")
    return exit_code([results])


@verb(
    app,
    "barnabas reassign elect",
    "barnabas reassign elect orders:0 --election-type unclean",
)
def elect(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC[:0,1]]", help="Topics or partitions; else all that need it."),
    ] = None,
    election_type: Annotated[
        str, typer.Option("--election-type", metavar="preferred|unclean", help="unclean may lose records.")
    ] = "preferred",
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Lets the preferred replica lead; or any, where none in sync is left."""
    if election_type.upper() not in ElectionType.__members__:
        raise CommandFailed(f"--election-type {election_type}: preferred or unclean are wanted", Exit.USAGE)
    kind = ElectionType[election_type.upper()]

    async def work(admin: Admin) -> Results[TopicPartition, None]:
        partitions = None if not topics else await chosen_partitions(admin, topics)
        return await admin.elect_leaders(kind, partitions)

    results = with_admin(connection, work)
    needless = _needless(results, ErrorCode.ELECTION_NOT_NEEDED)
    if json:
        output.document({"elected": _names(results.done), "needless": _names(needless), "failed": failures(results)})
    else:
        print(f"{len(results.done)} elected, {len(needless)} had the right leader already")
    return exit_code([results])


def _needless(results: Results[TopicPartition, None], code: ErrorCode) -> list[TopicPartition]:
    """Takes those out of what failed where there was nothing to do."""
    needless = [key for key, error in results.failed.items() if error.code == code]
    for key in needless:
        del results.failed[key]
    return needless


def _names(keys: Any) -> list[dict[str, Any]]:
    return [{"topic": key.topic, "partition": key.partition} for key in keys]


def _brokers(text: str) -> list[BrokerId]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise CommandFailed(f"--broker-list {text}: brokers are numbers, as in 1,2,3", Exit.USAGE) from None
    return list(dict.fromkeys(found))


def _document(plan: Plan) -> dict[str, Any]:
    partitions = [
        {"topic": key.topic, "partition": key.partition, "replicas": replicas} for key, replicas in plan.items()
    ]
    return {"version": PLAN_VERSION, "partitions": partitions}


def _read(file: Path) -> Plan:
    try:
        content = json_codec.loads(file.read_text(encoding="utf-8"))
        plan = {
            TopicPartition(str(each["topic"]), int(each["partition"])): [int(broker) for broker in each["replicas"]]
            for each in content["partitions"]
        }
    except (ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise CommandFailed(
            f"{file} is no plan ({reason}); barnabas reassign generate writes one", Exit.USAGE
        ) from None
    if not plan:
        raise CommandFailed(f"{file} names no partition", Exit.USAGE)
    return plan
