"""Every setting once: Kafka's name, type, default, range, scope, synonyms and one sentence of help.

`topic.TopicConfig` and `broker.BrokerConfig` are the typed values that the rest of Barnabas reads; `properties` reads
files; `inapplicable` knows the settings of Kafka that have no effect here, and why; `unknown` decides what happens to
a name that is no setting here.
"""
