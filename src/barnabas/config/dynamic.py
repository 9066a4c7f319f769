"""What holds for settings of brokers that change while they run, beyond what holds for each setting by itself.

Kafka checks these only when a setting is altered: a properties file may say otherwise.
"""

from barnabas.config.broker import BrokerConfig

CLEANER_THREADS = "log.cleaner.threads"
CLEANER_BUFFER_BYTES_MIN = 1 << 20  # for each thread of the cleaner
UNLIMITED = -1
AS_LOG_RETENTION = -2  # of the local retention of tiered storage


def fault(before: BrokerConfig, after: BrokerConfig) -> str | None:
    """What is wrong with going from the one to the other; None where nothing is. What stays as it is, is not judged."""
    return _threads_fault(before, after) or _cleaner_fault(before, after) or _limits_fault(before, after)


def _threads_fault(before: BrokerConfig, after: BrokerConfig) -> str | None:
    old, new = before.log_cleaner_threads, after.log_cleaner_threads
    if old == new or (old // 2 <= new <= old * 2 and new >= 1):
        return None
    return f"{CLEANER_THREADS}: {new} is not allowed; it must be between half and twice its present value, {old}"


def _cleaner_fault(before: BrokerConfig, after: BrokerConfig) -> str | None:
    threads = after.log_cleaner_threads
    is_changed = _differs(before, after, CLEANER_THREADS, "log.cleaner.dedupe.buffer.size")
    if not is_changed or threads == 0 or after.log_cleaner_dedupe_buffer_size // threads > CLEANER_BUFFER_BYTES_MIN:
        return None
    return (
        f"log.cleaner.dedupe.buffer.size: {after.log_cleaner_dedupe_buffer_size} is not allowed; it must be more than "
        f"{CLEANER_BUFFER_BYTES_MIN} for each of {threads} threads"
    )


def _limits_fault(before: BrokerConfig, after: BrokerConfig) -> str | None:
    if after.max_connections < 1 and _differs(before, after, "max.connections"):
        return f"max.connections: {after.max_connections} is not allowed; it must be at least 1"
    for name in ("ms", "bytes"):
        local, whole = after.value(f"log.local.retention.{name}"), after.value(f"log.retention.{name}")
        is_changed = _differs(before, after, f"log.local.retention.{name}", f"log.retention.{name}")
        if not is_changed or local == AS_LOG_RETENTION or whole in (UNLIMITED, None):
            continue
        if local == UNLIMITED or local > whole:
            return (
                f"log.local.retention.{name}: {local} is not allowed; it must be at most log.retention.{name}, {whole}"
            )
    return None


def _differs(before: BrokerConfig, after: BrokerConfig, *names: str) -> bool:
    return any(before.value(name) != after.value(name) for name in names)
