"""The settings that transactions obey, as plain numbers."""

from typing import NamedTuple

from barnabas.config.transactions import TransactionConfig


class TransactionSettings(NamedTuple):
    timeout_ms_max: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    expiry_interval_ms: int = 3_600_000
    has_two_phases: bool = False  # whether an outside coordinator may end transactions (KIP-939)

    @classmethod
    def of(cls, config: TransactionConfig) -> "TransactionSettings":
        return cls(
            timeout_ms_max=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            abort_interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiry_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            has_two_phases=config.transaction_two_phase_commit_enable,
        )
