"""The first records of a new cluster's log.

Always holds: they stand in a transaction within one batch, in Kafka's order, so that a half-written start counts as
none. Does not know: cluster id and directories, which live in meta.properties and not in the log.
"""

from barnabas.config.broker import BrokerConfig
from barnabas.controller import features
from barnabas.metadata.image import ResourceType
from barnabas.protocol.message import Message


def records(config: BrokerConfig) -> list[Message]:
    from barnabas.protocol.messages.begin_transaction_record import BeginTransactionRecord
    from barnabas.protocol.messages.config_record import ConfigRecord
    from barnabas.protocol.messages.end_transaction_record import EndTransactionRecord
    from barnabas.protocol.messages.feature_level_record import FeatureLevelRecord

    found: list[Message] = [BeginTransactionRecord(name="Bootstrap records")]
    for name, level in features.AT_FORMAT.items():
        found.append(FeatureLevelRecord(name=name, feature_level=level))
    # With eligible leader replicas (KIP-966) one number must hold in the whole cluster: it becomes a cluster default,
    # which then wins over each broker's own file.
    found.append(
        ConfigRecord(
            resource_type=ResourceType.BROKER,
            resource_name="",
            name="min.insync.replicas",
            value=str(config.min_insync_replicas),
        )
    )
    found.append(EndTransactionRecord())
    return found
