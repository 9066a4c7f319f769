"""The settings of transactions, by Kafka's names. `BrokerConfig` has them too."""

from barnabas.config.coordinator import CoordinatorConfig
from barnabas.config.setting import Update, boolean, integer, short
from barnabas.config.validation import at_least


class TransactionConfig(CoordinatorConfig):
    # How long
    transaction_max_timeout_ms: int = integer(
        "transaction.max.timeout.ms",
        900_000,
        at_least(1),
        help="Longest timeout that a transactional producer may ask for.",
    )
    transactional_id_expiration_ms: int = integer(
        "transactional.id.expiration.ms",
        604_800_000,
        at_least(1),
        help="How long a transactional id may be idle before it is forgotten.",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = integer(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        at_least(1),
        help="How often transactions beyond their timeout are looked for and aborted.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        at_least(1),
        help="How often transactional ids that have been idle for too long are looked for.",
    )

    transaction_two_phase_commit_enable: bool = boolean(
        "transaction.two.phase.commit.enable",
        False,
        help="Whether an outside coordinator may end transactions, which then have no timeout (InitProducerId 6).",
    )

    # How a partition joins
    transaction_partition_verification_enable: bool = boolean(
        "transaction.partition.verification.enable",
        True,
        update=Update.CLUSTER_WIDE,
        help="Whether a coordinator must confirm a transaction before its records are written to a partition.",
    )
    add_partitions_to_txn_retry_backoff_ms: int = integer(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        at_least(1),
        help="Pause before the coordinator is asked again to add a partition, while the transaction before it ends.",
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = integer(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        at_least(0),
        help="How long the coordinator is asked again, before the producer is told to wait.",
    )

    # Their topic
    transaction_state_log_num_partitions: int = integer(
        "transaction.state.log.num.partitions",
        50,
        at_least(1),
        help="Partitions of __transaction_state when it is made.",
    )
    transaction_state_log_replication_factor: int = short(
        "transaction.state.log.replication.factor",
        3,
        at_least(1),
        help="Replicas of __transaction_state when it is made.",
    )
    transaction_state_log_min_isr: int = integer(
        "transaction.state.log.min.isr",
        2,
        at_least(1),
        help="min.insync.replicas of __transaction_state when it is made.",
    )
    transaction_state_log_segment_bytes: int = integer(
        "transaction.state.log.segment.bytes",
        100 << 20,
        at_least(1),
        help="Segment size of __transaction_state when it is made.",
    )
