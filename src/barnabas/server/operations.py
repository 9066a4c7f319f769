"""Which operations a client may do, as bit fields: without authorization, all that the resource knows.

Bits are Kafka's operation codes: read 3, write 4, create 5, delete 6, alter 7, describe 8, cluster action 9, describe
configs 10, alter configs 11, idempotent write 12.
"""

NOT_ASKED = -(2**31)
TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
GROUP_OPERATIONS = sum(1 << bit for bit in (3, 6, 8, 10, 11))
