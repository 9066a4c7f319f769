"""A client for whoever looks after a cluster: `async with Admin(bootstrap_servers="localhost:9092") as admin:`

Calls about several things return `Results`: what was done, and what failed, each with its own error. Calls about one
thing return it, or raise. Every call ends within `timeout_ms`, or within default_api_timeout_ms.
"""

from barnabas.client.admin.base import AdminBase
from barnabas.client.admin.cluster import Clusters
from barnabas.client.admin.configs import Configs
from barnabas.client.admin.groups import Groups
from barnabas.client.admin.offsets import Offsets
from barnabas.client.admin.placement import Placement
from barnabas.client.admin.results import Results
from barnabas.client.admin.transactions import Transactions

__all__ = ["Admin", "AdminBase", "Results"]


class Admin(Transactions, Configs, Groups, Offsets, Placement, Clusters):
    """All of it. Settings are keyword arguments with Kafka's names: bootstrap_servers, request_timeout_ms, …"""
