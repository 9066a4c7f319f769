"""Which incarnation of a broker counts, and how a controller registers itself. How brokers come and go is in
`registration` and `lifecycle`.

Always holds: a broker's epoch is the offset at which its registration was decided, so a later incarnation always has
the larger one.
"""

from collections.abc import Sequence

from barnabas.controller import features
from barnabas.controller.decision import Decision, Refusal
from barnabas.controller.features import SupportedFeature
from barnabas.errors import ErrorCode
from barnabas.metadata.image import BrokerImage, Endpoint, MetadataImage
from barnabas.types import BrokerId, Uuid

FENCE, UNFENCE = 1, -1  # as BrokerRegistrationChangeRecord has them


def check_epoch(image: MetadataImage, broker_id: BrokerId, broker_epoch: int) -> BrokerImage | Refusal:
    """Only the present incarnation of a broker is listened to."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Refusal(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered.")
    if broker.epoch != broker_epoch:
        words = f"Broker {broker_id} is registered in epoch {broker.epoch}, not {broker_epoch}."
        return Refusal(ErrorCode.STALE_BROKER_EPOCH, words)
    return broker


def register_controller(
    image: MetadataImage,
    controller_id: BrokerId,
    incarnation_id: Uuid,
    endpoints: tuple[Endpoint, ...],
    supported: Sequence[SupportedFeature] = features.SUPPORTED,
) -> Decision[None]:
    from barnabas.protocol.messages.register_controller_record import (
        ControllerEndpoint,
        ControllerFeature,
        RegisterControllerRecord,
    )

    record = RegisterControllerRecord(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=endpoint.listener,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=endpoint.security_protocol,
            )
            for endpoint in endpoints
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_version,
                max_supported_version=feature.max_version,
            )
            for feature in supported
        ],
    )
    return Decision([record], None)
