"""How a node finds its place in the metadata quorum, from its settings and what is in its directory.

controller.quorum.voters               the voters, until kraft.version is raised from 0 to 1 and the log has them
controller.quorum.bootstrap.servers    whom to ask; the voters stand in the log (kraft.version 1). A controller
                                       with an empty directory that names only itself begins a quorum of its own,
                                       as Kafka's `format --standalone`; any other one joins as an observer
neither                                a node alone
"""

import asyncio
import logging

from barnabas.client.connection import ConnectionLost
from barnabas.config.broker import BrokerConfig
from barnabas.config.endpoints import WILDCARD_HOSTS, Endpoint, Server, told
from barnabas.config.validation import ConfigError
from barnabas.consensus import snapshot_file
from barnabas.consensus.messages import LogEnd
from barnabas.consensus.snapshot_file import SnapshotEncoder, SnapshotHead
from barnabas.consensus.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from barnabas.protocol.checksum import crc32c
from barnabas.runtime.interfaces import Address, Runtime
from barnabas.server.peers import Peers
from barnabas.server.quorum.metadata_log import DIRECTORY_NAME
from barnabas.server.quorum.quorum_addresses import FIRST_BOOTSTRAP_ID, OwnEndpoints
from barnabas.types import Uuid, uuid_text

logger = logging.getLogger(__name__)

CONTROLLER_ROLE, BROKER_ROLE = "controller", "broker"
LOOPBACKS = ("localhost", "127.0.0.1", "::1")
KRAFT_VERSION = 1
BOOTSTRAP_SNAPSHOT = LogEnd(0, 0)  # what a directory is formatted with
CONTROLLERS = 2  # the kind of endpoints that DescribeCluster is asked for
RETRY_MS = 200


def is_controller(config: BrokerConfig) -> bool:
    return CONTROLLER_ROLE in config.process_roles


def is_broker(config: BrokerConfig) -> bool:
    return BROKER_ROLE in config.process_roles


def is_dynamic(config: BrokerConfig) -> bool:
    return bool(config.controller_quorum_bootstrap_servers) and not config.controller_quorum_voters


def voters_of(config: BrokerConfig) -> VoterSet:
    """As configured; a node for which nothing is configured votes alone. None where the log has them."""
    if is_dynamic(config):
        return VoterSet()
    listener = (*config.controller_listener_names, "")[0]
    named = config.controller_quorum_voters
    if not named:
        return VoterSet([Voter(ReplicaKey(config.node_id))])
    return VoterSet(Voter(ReplicaKey(each.node_id), (VoterEndpoint(listener, each.host, each.port),)) for each in named)


def bootstrap_of(config: BrokerConfig) -> tuple[Address, ...]:
    return tuple((server.host, server.port) for server in config.controller_quorum_bootstrap_servers)


def cluster_id_of(config: BrokerConfig) -> str | None:
    """Nodes that start a cluster together must agree on its id before they have met: it follows from the voters that
    all of them name. None for a node alone: then chance may decide."""
    if len(config.controller_quorum_voters) < 2:
        return None
    text = ",".join(sorted(str(voter) for voter in config.controller_quorum_voters))
    return uuid_text(b"".join(crc32c(f"{part} {text}".encode()).to_bytes(4, "big") for part in range(4)))


def own_endpoints(config: BrokerConfig, bound: list[Endpoint]) -> OwnEndpoints:
    """Where the others reach this node's controller, in the order of `controller.listener.names`.

    With static voters that is what all nodes have in their settings.
    """
    if not is_controller(config) or not config.controller_listener_names:
        return OwnEndpoints()
    for voter in config.controller_quorum_voters:
        if voter.node_id == config.node_id:
            return OwnEndpoints((VoterEndpoint(config.controller_listener_names[0], voter.host, voter.port),))
    named = (*config.listeners, *(config.advertised_listeners or ()))  # of two with one name the latter counts
    endpoints = {each.listener_name: each for each in told(named, bound)}
    for each in endpoints.values():
        if each.host in WILDCARD_HOSTS and is_dynamic(config):
            raise ConfigError(f"listeners: {each} needs a host that other controllers can dial")
    return OwnEndpoints(
        tuple(
            VoterEndpoint(name, endpoints[name].host, endpoints[name].port) for name in config.controller_listener_names
        )
    )


def names_only_itself(config: BrokerConfig) -> bool:
    """Whether all of `controller.quorum.bootstrap.servers` are this node."""
    mine = [
        each
        for each in (*config.listeners, *(config.advertised_listeners or ()))
        if each.listener_name in config.controller_listener_names
    ]
    return all(any(_is(server, each) for each in mine) for server in config.controller_quorum_bootstrap_servers)


def _is(server: Server, endpoint: Endpoint) -> bool:
    near = server.host in LOOPBACKS and endpoint.host in (*WILDCARD_HOSTS, *LOOPBACKS)
    return server.port == endpoint.port and (server.host == endpoint.host or near)


def begins_quorum(config: BrokerConfig, runtime: Runtime, directory: str) -> bool:
    """Whether this start is that of a new quorum of one voter in the log."""
    log = f"{directory}/{DIRECTORY_NAME}"
    is_new = not runtime.disk.exists(log) or not runtime.disk.list_directory(log)
    return is_new and is_controller(config) and is_dynamic(config) and names_only_itself(config)


def begin_quorum(runtime: Runtime, directory: str, key: ReplicaKey, own: OwnEndpoints) -> None:
    """The snapshot of an empty log that names this node as the only voter."""
    log = f"{directory}/{DIRECTORY_NAME}"
    now_ms = runtime.clock.now_ms()
    encoder = SnapshotEncoder(BOOTSTRAP_SNAPSHOT, now_ms)
    voters = VoterSet([Voter(key, own.endpoints)])
    data = encoder.begin(SnapshotHead(now_ms, KRAFT_VERSION, voters)) + encoder.end()
    runtime.disk.make_directories(log)
    runtime.disk.sync_directory(directory)
    runtime.disk.write_atomically(f"{log}/{snapshot_file.file_name(BOOTSTRAP_SNAPSHOT)}", data)
    logger.info("node %d begins a metadata quorum", key.id)


async def find_cluster_id(config: BrokerConfig, runtime: Runtime) -> str:
    """Asks the quorum which cluster it is: a node that joins belongs to it. Waits until one answers."""
    from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest

    servers = bootstrap_of(config) or tuple((each.host, each.port) for each in config.controller_quorum_voters)
    peers = Peers(
        node_id=config.node_id,
        runtime=runtime,
        address_of=lambda number, _purpose: servers[FIRST_BOOTSTRAP_ID - number],
    )
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    try:
        while True:
            for number in range(len(servers)):
                try:
                    answer = await peers.get(FIRST_BOOTSTRAP_ID - number, "join").request(request)
                except ConnectionLost as error:
                    logger.info("cannot ask %s:%d for the cluster yet: %s", *servers[number], error)
                    continue
                if answer.cluster_id:
                    return str(answer.cluster_id)
            await runtime.clock.sleep(RETRY_MS)
    except asyncio.CancelledError:
        logger.info("no member of the quorum has answered")
        raise
    finally:
        peers.close()


async def join(config: BrokerConfig, runtime: Runtime, directory: str) -> str | None:
    """The id of the cluster that an empty directory is to belong to; None where chance may decide."""
    if not is_controller(config) or (is_dynamic(config) and not begins_quorum(config, runtime, directory)):
        return await find_cluster_id(config, runtime)
    return cluster_id_of(config)


def take_place(config: BrokerConfig, runtime: Runtime, directory: str, directory_id: Uuid, own: OwnEndpoints) -> None:
    if begins_quorum(config, runtime, directory):
        begin_quorum(runtime, directory, ReplicaKey(config.node_id, directory_id), own)
