"""Settings of compaction: whether it runs, how much memory and disk traffic it may take, how often it looks around.

What a topic may set itself (ratio, lags, tombstones) is in `broker` as the default of topics. `BrokerConfig` has these.
"""

from barnabas.config.quorum import QuorumConfig
from barnabas.config.setting import Update, boolean, double, integer, long
from barnabas.config.validation import at_least

DOUBLE_MAX = 1.7976931348623157e308


class CleanerConfig(QuorumConfig):
    log_cleaner_enable: bool = boolean(
        "log.cleaner.enable", True, help="Whether logs with cleanup.policy compact are compacted."
    )
    log_cleaner_threads: int = integer(
        "log.cleaner.threads",
        1,
        at_least(0),
        update=Update.CLUSTER_WIDE,
        help="Logs compacted at the same time, each in a process of its own; 0 for none.",
    )
    log_cleaner_dedupe_buffer_size: int = long(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        update=Update.CLUSTER_WIDE,
        help="Memory in which all compactions together remember keys, 24 bytes each; less is taken where less will do.",
    )
    log_cleaner_io_buffer_load_factor: float = double(
        "log.cleaner.io.buffer.load.factor",
        0.9,
        update=Update.CLUSTER_WIDE,
        help="How full that memory may become; fuller means more keys at once and slower searches.",
    )
    log_cleaner_io_buffer_size: int = integer(
        "log.cleaner.io.buffer.size",
        524_288,
        at_least(0),
        update=Update.CLUSTER_WIDE,
        help="Memory in which all compactions together read and write; a larger batch is read whole.",
    )
    log_cleaner_io_max_bytes_per_second: float = double(
        "log.cleaner.io.max.bytes.per.second",
        DOUBLE_MAX,
        update=Update.CLUSTER_WIDE,
        help="Bytes that all compactions together read and write in a second, on average.",
    )
    log_cleaner_backoff_ms: int = long(
        "log.cleaner.backoff.ms",
        15_000,
        at_least(0),
        update=Update.CLUSTER_WIDE,
        help="How long compaction rests when there is nothing to do.",
    )
