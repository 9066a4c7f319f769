"""DescribeClientQuotas, versions 0 and 1: quotas by a filter. The rules are in `controller.quotas`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller import quotas
from barnabas.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from barnabas.server.context import RequestContext

if TYPE_CHECKING:
    from barnabas.server.broker import Broker


def handle(
    broker: Broker, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    return quotas.describe_client_quotas(broker.controller.image, request)
