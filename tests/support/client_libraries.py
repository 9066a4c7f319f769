"""The client libraries that nobody here wrote, imported in one place.

Holds: importing this module raises no warning. kafka-python reads its message schemas by a call that newer Pythons
deprecate, and the test run turns warnings into errors.
"""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import aiokafka
    import confluent_kafka
    import confluent_kafka.admin
    import kafka
    import kafka.admin
    import kafka.errors
    import kafka.structs

__all__ = ["aiokafka", "confluent_kafka", "kafka"]
