"""`barnabas topic`: what topics there are, and which there should be."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from barnabas.cli import output
from barnabas.cli.app import noun, verb
from barnabas.cli.options import USUAL_CONNECTION, Configs, Connection, Json
from barnabas.cli.session import complete_topics, existing_topics, exit_code, failures, settings, with_admin
from barnabas.cli.text import CommandFailed, Exit, counted, suggestion
from barnabas.client.admin import Admin, Results
from barnabas.client.admin.configs import AlterConfigOp, AlterOperation, ConfigResource, ResourceKind
from barnabas.client.admin.offsets import OffsetSpec
from barnabas.client.admin.topics import CreatedTopic, NewTopic, PartitionDescription, TopicDescription
from barnabas.client.errors import TopicExistsError, UnknownTopicError
from barnabas.config.topic import TopicConfig
from barnabas.config.validation import INT_MAX
from barnabas.errors import ErrorCode
from barnabas.types import TopicPartition

app = noun("Creates, lists, describes, alters and deletes topics.")

REPLICAS_MAX = 32_767  # a request has two bytes for it

ReplicationFactor = Annotated[
    int | None,
    typer.Option(
        "--replication-factor",
        min=1,
        max=REPLICAS_MAX,
        metavar="N",
        help="Replicas of each; else as the broker has it.",
    ),
]
Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of topics.", autocompletion=complete_topics)]


@verb(
    app,
    "barnabas topic create orders",
    "barnabas topic create orders payments --partitions 6 --replication-factor 3",
    "barnabas topic create users --config cleanup.policy=compact --if-not-exists",
    "barnabas topic create placed --replica-assignment 1:2,2:3",
)
def create(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of new topics.")],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, max=INT_MAX, metavar="N", help="How many; else as the broker has it."),
    ] = None,
    replication_factor: ReplicationFactor = None,
    config: Configs = None,
    replica_assignment: Annotated[
        str | None,
        typer.Option(
            "--replica-assignment", metavar="1:2,2:3", help="Brokers of each partition, instead of both numbers."
        ),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Topics that exist are no failure.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only say whether it could be done.")] = False,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Creates topics."""
    assignments = None if replica_assignment is None else _assignments(replica_assignment)
    if assignments is not None and (partitions is not None or replication_factor is not None):
        raise CommandFailed("--replica-assignment says how many partitions and replicas there are", Exit.USAGE)
    wanted = [
        NewTopic(
            name=name,
            partitions=partitions or -1,
            replication_factor=replication_factor or -1,
            configs=settings(config),
            assignments=assignments,
        )
        for name in names
    ]

    async def work(admin: Admin) -> Results[str, CreatedTopic]:
        return await admin.create_topics(wanted, validate_only=validate_only)

    results = with_admin(connection, work)
    existed = [name for name, error in results.failed.items() if if_not_exists and isinstance(error, TopicExistsError)]
    for name in existed:
        del results.failed[name]
    if json:
        output.document({"topics": list(results.done.values()), "existed": existed, "failed": failures(results)})
        return exit_code([results])
    _hint(results, settings(config))
    done = "could be created" if validate_only else "created"
    for topic in results.done.values():
        size = f"{counted(topic.partitions, 'partition')}, {counted(topic.replication_factor, 'replica')} of each"
        print(f"{done}: {topic.name}, {size}")
    for name in existed:
        print(f"exists already: {name}")
    return exit_code([results])


def _hint(results: Results[Any, Any], names: Iterable[str]) -> None:
    """Where a broker refuses a setting by its name, the closest one that topics have."""
    if any(error.code == ErrorCode.INVALID_CONFIG for error in results.failed.values()):
        for name in names:
            hint = suggestion(name, list(TopicConfig.SETTINGS))
            if name not in TopicConfig.SETTINGS and hint:
                output.note(f"{name}: no setting of topics{hint}")


def _assignments(text: str) -> dict[int, list[int]]:
    try:
        return {number: [int(broker) for broker in part.split(":")] for number, part in enumerate(text.split(","))}
    except ValueError:
        message = f"--replica-assignment {text}: brokers are numbers, as in 1:2,2:3"
        raise CommandFailed(message, Exit.USAGE) from None


@verb(app, "barnabas topic list", "barnabas topic list --internal --json", name="list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also those of the brokers themselves.")] = False,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Lists topics; in a pipe, their names alone."""

    async def work(admin: Admin) -> list[Any]:
        return list(await admin.list_topics(internal=internal))

    topics = with_admin(connection, work)
    if json:
        output.document({"topics": topics})
    elif output.on_terminal():
        rows = ((each.name, each.partitions, each.replication_factor) for each in topics)
        output.table(("topic", "partitions", "replicas"), rows, empty="there are no topics yet")
    else:
        for each in topics:
            print(each.name)
    return Exit.DONE


@verb(
    app,
    "barnabas topic describe orders",
    "barnabas topic describe orders --offsets --with-config",
    "barnabas topic describe --under-replicated-partitions",
    "barnabas topic describe orders --json",
)
def describe(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]", help="Names of topics; else all.", autocompletion=complete_topics),
    ] = None,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show where partitions begin and end.")] = False,
    with_config: Annotated[bool, typer.Option("--with-config", help="Show settings that are not defaults.")] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Only those with replicas out of sync.")
    ] = False,
    unavailable: Annotated[bool, typer.Option("--unavailable-partitions", help="Only those without a leader.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Also those of the brokers themselves.")] = False,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Describes topics and their partitions."""

    def is_shown(partition: PartitionDescription) -> bool:
        if not (under_replicated or unavailable):
            return True
        return (under_replicated and partition.is_under_replicated) or (unavailable and partition.leader is None)

    async def work(admin: Admin) -> list[dict[str, Any]]:
        if names:
            await existing_topics(admin, names)
        wanted = names or [each.name for each in await admin.list_topics(internal=internal)]
        described = (await admin.describe_topics(wanted)).unwrap()
        found = []
        for topic in described.values():
            shown = [each for each in topic.partitions if is_shown(each)]
            if shown or not (under_replicated or unavailable):
                found.append(await _facts(admin, topic, shown, offsets=offsets, with_config=with_config))
        return found

    topics = with_admin(connection, work)
    if json:
        output.document({"topics": topics})
        return Exit.DONE
    for topic in topics:
        _show(topic, offsets)
    return Exit.DONE


async def _facts(
    admin: Admin, topic: TopicDescription, shown: list[PartitionDescription], *, offsets: bool, with_config: bool
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }
    partitions = [output.plain(each) for each in shown]
    if offsets:
        keys = [TopicPartition(topic.name, each.partition) for each in shown if each.leader is not None]
        first = (await admin.list_offsets(dict.fromkeys(keys, OffsetSpec.EARLIEST))).unwrap()
        last = (await admin.list_offsets(dict.fromkeys(keys, OffsetSpec.LATEST))).unwrap()
        for each in partitions:
            key = TopicPartition(topic.name, each["partition"])
            each["start_offset"] = first[key].offset if key in first else None
            each["end_offset"] = last[key].offset if key in last else None
    if with_config:
        resource = ConfigResource(ResourceKind.TOPIC, topic.name)
        entries = (await admin.describe_configs([resource])).one(resource)
        facts["configs"] = {name: each.value for name, each in entries.items() if not each.is_default}
    return {**facts, "partitions": partitions}


def _show(topic: dict[str, Any], offsets: bool) -> None:
    replicas = counted(topic["replication_factor"], "replica")
    words = f"{counted(topic['partition_count'], 'partition')}, {replicas} of each"
    print(f"{topic['name']}: {words}, id {topic['topic_id'] or 'unknown'}")
    for name, value in topic.get("configs", {}).items():
        print(f"  {name}={value}")
    names = ["partition", "leader", "replicas", "isr", "offline_replicas"]
    names += ["start_offset", "end_offset"] if offsets else []
    rows = [[each[name] for name in names] for each in topic["partitions"]]
    output.table([name.replace("_", " ") for name in names], rows)


@verb(
    app,
    "barnabas topic alter orders --partitions 12",
    "barnabas topic alter orders --config retention.ms=86400000 --delete-config segment.bytes",
)
def alter(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", autocompletion=complete_topics)],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, max=INT_MAX, metavar="N", help="How many it is to have; never fewer."),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="A setting to fall back to its default; repeatable."),
    ] = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Adds partitions to a topic, or changes its settings."""
    operations = [AlterConfigOp(key, value) for key, value in settings(config).items()]
    operations += [AlterConfigOp(key, None, AlterOperation.DELETE) for key in delete_config or ()]
    if partitions is None and not operations:
        raise CommandFailed("nothing to alter: name --partitions, --config or --delete-config", Exit.USAGE)
    resource = ConfigResource(ResourceKind.TOPIC, name)

    async def work(admin: Admin) -> list[Results[Any, Any]]:
        await existing_topics(admin, [name])
        if delete_config:
            known = list((await admin.describe_configs([resource])).one(resource))
            for key in delete_config:
                if key not in known:
                    raise CommandFailed(f"{key} is no setting of topics{suggestion(key, known)}")
        done: list[Results[Any, Any]] = []
        if operations:
            done.append(await admin.incremental_alter_configs({resource: operations}))
        if partitions is not None and not any(each.failed for each in done):
            done.append(await admin.create_partitions({name: partitions}))
        return done

    results = with_admin(connection, work)
    code = exit_code(results)
    for each in results:
        _hint(each, settings(config))
    if json:
        output.document({"topic": name, "altered": code == Exit.DONE})
    elif code == Exit.DONE:
        print(f"altered: {name}")
    return code


@verb(app, "barnabas topic delete orders", "barnabas topic delete orders payments --if-exists")
def delete(
    names: Names,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Topics that do not exist are no failure.")] = False,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Deletes topics with all their records."""

    async def work(admin: Admin) -> Results[str, None]:
        if not if_exists:
            await existing_topics(admin, names)
        return await admin.delete_topics(names)

    results = with_admin(connection, work)
    missing = [name for name, error in results.failed.items() if if_exists and isinstance(error, UnknownTopicError)]
    for name in missing:
        del results.failed[name]
    if json:
        output.document({"deleted": list(results.done), "missing": missing, "failed": failures(results)})
    else:
        for name in results.done:
            print(f"deleted: {name}")
        for name in missing:
            print(f"does not exist: {name}")
    return exit_code([results])
