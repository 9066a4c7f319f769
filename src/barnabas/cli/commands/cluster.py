"""`barnabas cluster`: which brokers there are, and whether all is well with them."""

from typing import Annotated, Any

import typer

from barnabas.cli import output
from barnabas.cli.app import noun, verb
from barnabas.cli.doctor_checks import SPACE_BYTES_NEEDED
from barnabas.cli.options import USUAL_CONNECTION, Connection, Json
from barnabas.cli.session import with_admin
from barnabas.cli.text import Exit, counted
from barnabas.client.admin import Admin
from barnabas.client.admin.cluster import ClusterDescription, LogDirectory
from barnabas.client.admin.configs import ConfigResource, ResourceKind
from barnabas.client.errors import KafkaError, UnsupportedVersionError

app = noun("Describes the brokers of a cluster, and says how it is.")


@verb(app, "barnabas cluster describe", "barnabas cluster describe --with-config --json")
def describe(
    with_config: Annotated[
        bool, typer.Option("--with-config", help="Show settings of each broker that are not defaults.")
    ] = False,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Describes brokers, their disks and the features in use."""

    async def work(admin: Admin) -> dict[str, Any]:
        cluster = await admin.registered_brokers()
        disks = await admin.describe_log_dirs()
        features = await admin.describe_features()
        brokers = []
        for broker in cluster.brokers:
            directories = disks.done.get(broker.node_id, [])
            facts: dict[str, Any] = {
                **output.plain(broker),
                "replicas": sum(len(each.replicas) for each in directories),
                "bytes": sum(replica.size_bytes for each in directories for replica in each.replicas),
                "usable_bytes": min((each.usable_bytes for each in directories if each.usable_bytes), default=None),
            }
            if with_config:
                facts["configs"] = await _configs(admin, broker.node_id)
            brokers.append(facts)
        levels = {name: each.finalized for name, each in features.items()}
        ids = {"cluster_id": cluster.cluster_id, "controller_id": await _controller(admin, cluster)}
        return {**ids, "features": levels, "brokers": brokers}

    facts = with_admin(connection, work)
    if json:
        output.document(facts)
        return Exit.DONE
    print(f"cluster {facts['cluster_id']}, controller {output.cell(facts['controller_id'])}")
    print("features: " + ", ".join(f"{name}={level}" for name, level in facts["features"].items() if level is not None))
    names = ("node_id", "host", "port", "rack", "is_fenced", "replicas", "bytes")
    titles = ("broker", "host", "port", "rack", "fenced", "replicas", "bytes")
    output.table(titles, ([each[name] for name in names] for each in facts["brokers"]))
    for each in facts["brokers"]:
        for name, value in each.get("configs", {}).items():
            print(f"broker {each['node_id']}: {name}={value}")
    return Exit.DONE


async def _controller(admin: Admin, cluster: ClusterDescription) -> int | None:
    """Who leads the quorum. What brokers call controller to their clients is any one that passes requests on."""
    try:
        return (await admin.describe_metadata_quorum()).leader_id
    except UnsupportedVersionError:  # a cluster without such a quorum
        return cluster.controller_id


async def _configs(admin: Admin, node_id: int) -> dict[str, str | None]:
    resource = ConfigResource(ResourceKind.BROKER, str(node_id))
    entries = (await admin.describe_configs([resource])).one(resource)
    return {name: each.value for name, each in entries.items() if not each.is_default}


@verb(app, "barnabas cluster status", "barnabas cluster status --json")
def status(
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Says whether all is well.

    Ends with 1 where a partition has no leader, replicas are out of sync, a broker is fenced or does not answer, a disk
    has failed or is full (less than 64 MiB are free), or the quorum has no majority to spare that keeps up.
    """
    facts = with_admin(connection, _status)
    if json:
        output.document(facts)
    else:
        sizes = f"{counted(facts['topics'], 'topic')}, {counted(facts['partitions'], 'partition')}"
        print(f"{counted(facts['brokers'], 'broker')}, {sizes}")
        for problem in facts["problems"]:
            print(f"wrong: {problem}")
        if not facts["problems"]:
            print("ok")
    return Exit.FAILED if facts["problems"] else Exit.DONE


async def _status(admin: Admin) -> dict[str, Any]:
    cluster = await admin.registered_brokers()
    topics = await admin.list_topics(internal=True)
    described = (await admin.describe_topics([each.name for each in topics])).done
    partitions = [(topic.name, each) for topic in described.values() for each in topic.partitions]
    problems = [f"broker {each.node_id} is fenced" for each in cluster.brokers if each.is_fenced]
    problems += [f"partition {name}-{each.partition} has no leader" for name, each in partitions if each.leader is None]
    problems += [
        f"partition {name}-{each.partition} has {len(each.isr)} of {len(each.replicas)} replicas in sync"
        for name, each in partitions
        if each.leader is not None and each.is_under_replicated
    ]
    disks = await admin.describe_log_dirs()
    problems += [f"broker {node_id} does not answer: {error}" for node_id, error in disks.failed.items()]
    problems += [
        f"directory {each.path} of broker {node_id}: {problem}"
        for node_id, directories in disks.done.items()
        for each in directories
        if (problem := _disk_problem(each)) is not None
    ]
    problems += await _quorum_problems(admin)
    return {
        "cluster_id": cluster.cluster_id,
        "brokers": len(cluster.brokers),
        "topics": len(topics),
        "partitions": len(partitions),
        "reassignments": len(await admin.list_partition_reassignments()),
        "problems": problems,
    }


def _disk_problem(directory: LogDirectory) -> str | None:
    if directory.error is not None:
        return directory.error
    usable_bytes = directory.usable_bytes
    if usable_bytes is None or usable_bytes >= SPACE_BYTES_NEEDED:
        return None
    return (
        f"the disk is full, or soon will be: {usable_bytes >> 10} KiB are free, {SPACE_BYTES_NEEDED >> 20} MiB are "
        "needed; free some space, or let topics keep less (retention.bytes, retention.ms)"
    )


LAG_MAX = 1_000  # records of metadata that a voter may be behind and still be called well


async def _quorum_problems(admin: Admin) -> list[str]:
    try:
        quorum = await admin.describe_metadata_quorum()
    except UnsupportedVersionError:  # a cluster without such a quorum
        return []
    except KafkaError as error:
        return [f"the quorum does not answer: {error}"]
    end = max((each.log_end_offset for each in quorum.voters), default=0)
    return [
        f"voter {each.replica_id} of the quorum is {end - each.log_end_offset} records behind"
        for each in quorum.voters
        if end - each.log_end_offset > LAG_MAX
    ]
