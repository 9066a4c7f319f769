"""Client quotas: AlterClientQuotas decided into records, DescribeClientQuotas answered from the image.

An entity is one or two of user, client-id and ip, each with a name or, where the name is None, standing for all that
have no quota of their own.
Always holds: an entity is altered whole or not at all; no entity is kept without a quota.
Does not know: how quotas are enforced.
Differs from Kafka: an ip is an address, not a name that would have to be looked up; a quota is a number.
"""

import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.controller.decision import RECORDS_MAX, Decision, Refusal
from barnabas.controller.partitions import too_many
from barnabas.errors import ErrorCode
from barnabas.metadata.image import MetadataImage, QuotaEntity
from barnabas.protocol.message import Message

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlterClientQuotasResponse,
        RequestEntryData,
        ResponseEntryData,
    )
    from barnabas.protocol.messages.describe_client_quotas import (
        ComponentData,
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
    )

USER, CLIENT_ID, IP = "user", "client-id", "ip"
LONG_MAX, INT_MAX = float(2**63), float(2**31 - 1)  # as numbers that a quota can be: the first is rounded up

# Of each quota, its largest value where only whole numbers are allowed; None where every number above 0 is.
OF_CLIENTS: Mapping[str, float | None] = {
    "producer_byte_rate": LONG_MAX,
    "consumer_byte_rate": LONG_MAX,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
OF_ADDRESSES: Mapping[str, float | None] = {"connection_creation_rate": INT_MAX}

MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2
FRACTION_MAX = 1e-6  # by which a number may miss a whole one and still count as it


# Alter


def alter_client_quotas(
    image: MetadataImage, request: "AlterClientQuotasRequest"
) -> Decision["AlterClientQuotasResponse"]:
    from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasResponse

    records: list[Message] = []
    answers: dict[QuotaEntity, ResponseEntryData] = {}
    for entry in request.entries:
        entity = _entity(entry)
        if entity in answers:
            altered: list[Message] | Refusal = Refusal(ErrorCode.INVALID_REQUEST, "The entity is named twice.")
        else:
            altered = _alter(image, entity, entry)
        if isinstance(altered, Refusal):
            answers[entity] = _answer(entity, altered)
        else:
            answers[entity] = _answer(entity, Refusal(ErrorCode.NONE))
            records += altered
    if len(records) > RECORDS_MAX:
        return Decision([], refused(request, too_many(len(records))))
    response = AlterClientQuotasResponse(entries=list(answers.values()))
    return Decision([] if request.validate_only else records, response)


def refused(request: "AlterClientQuotasRequest", refusal: Refusal) -> "AlterClientQuotasResponse":
    """The same for all."""
    from barnabas.protocol.messages.alter_client_quotas import AlterClientQuotasResponse

    entities = dict.fromkeys(_entity(entry) for entry in request.entries)
    return AlterClientQuotasResponse(entries=[_answer(entity, refusal) for entity in entities])


def _entity(entry: "RequestEntryData") -> QuotaEntity:
    return tuple(sorted({part.entity_type: part.entity_name for part in entry.entity}.items()))


def _answer(entity: QuotaEntity, outcome: Refusal) -> "ResponseEntryData":
    from barnabas.protocol.messages.alter_client_quotas import ResponseEntityData, ResponseEntryData

    return ResponseEntryData(
        error_code=outcome.error,
        error_message=outcome.message,
        entity=[ResponseEntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def _alter(image: MetadataImage, entity: QuotaEntity, entry: "RequestEntryData") -> list[Message] | Refusal:
    from barnabas.protocol.messages.client_quota_record import ClientQuotaRecord, EntityData

    keys = _keys_of(entity)
    if isinstance(keys, Refusal):
        return keys
    names = [op.key for op in entry.ops]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "A quota is named twice.")
    present = image.client_quotas.get(entity, {})
    records: list[Message] = []
    for op in entry.ops:
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        if op.remove:
            if op.key in present:
                records.append(ClientQuotaRecord(entity=parts, key=op.key, remove=True))
            continue
        fault = _fault(keys, op.key, op.value)
        if fault is not None:
            return Refusal(ErrorCode.INVALID_REQUEST, fault)
        if present.get(op.key) != op.value:
            records.append(ClientQuotaRecord(entity=parts, key=op.key, value=op.value))
    return records


def _keys_of(entity: QuotaEntity) -> Mapping[str, float | None] | Refusal:
    """Which quotas such an entity can have."""
    parts = dict(entity)
    unknown = [kind for kind in parts if kind not in (USER, CLIENT_ID, IP)]
    if not parts:
        fault = "The entity is empty."
    elif unknown:
        fault = f"There is no kind of entity {unknown[0]!r}: user, client-id and ip are allowed."
    elif "" in parts.values():
        fault = "The name of an entity cannot be empty."
    elif IP in parts and len(parts) > 1:
        fault = "Invalid quota entity combination: an ip cannot be combined with user or client-id."
    elif not _is_address(parts.get(IP)):
        fault = f"{parts[IP]!r} is not a valid IP address."
    else:
        return OF_ADDRESSES if IP in parts else OF_CLIENTS
    return Refusal(ErrorCode.INVALID_REQUEST, fault)


def _is_address(name: str | None) -> bool:
    if name is None:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _fault(keys: Mapping[str, float | None], key: str, value: float) -> str | None:
    if key not in keys:
        return f"There is no quota {key!r} for such an entity: {', '.join(keys)} are allowed."
    if not value > 0:
        return f"{key} must be greater than 0."
    largest = keys[key]
    if largest is None:
        return None
    if value > largest:
        return f"{key} must be at most {largest:.0f}."
    if math.fmod(value, 1.0) > FRACTION_MAX:
        return f"{key} must be a whole number."
    return None


# Describe


class _Filter(NamedTuple):
    exact: Mapping[str, str | None]  # kind → name, None for the default
    any_name: Sequence[str]  # kinds that must be there, whichever their name


def describe_client_quotas(
    image: MetadataImage, request: "DescribeClientQuotasRequest"
) -> "DescribeClientQuotasResponse":
    from barnabas.protocol.messages.describe_client_quotas import (
        DescribeClientQuotasResponse,
        EntityData,
        EntryData,
        ValueData,
    )

    wanted = _filter(request.components)
    if isinstance(wanted, Refusal):
        return DescribeClientQuotasResponse(error_code=wanted.error, error_message=wanted.message, entries=None)
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in quotas.items()],
        )
        for entity, quotas in image.client_quotas.items()
        if _matches(dict(entity), wanted, strict=request.strict)
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _filter(components: "Sequence[ComponentData]") -> _Filter | Refusal:
    exact: dict[str, str | None] = {}
    any_name: list[str] = []
    for component in components:
        kind = component.entity_type
        fault = _component_fault(component)
        if kind in exact or kind in any_name:
            fault = f"{kind} stands in the filter twice."
        if fault is not None:
            return Refusal(ErrorCode.INVALID_REQUEST, fault)
        if kind not in (USER, CLIENT_ID, IP):
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"There is no kind of entity {kind!r}.")
        if component.match_type == MATCH_SPECIFIED:
            any_name.append(kind)
        else:
            exact[kind] = component.match
    kinds = {*exact, *any_name}
    if IP in kinds and len(kinds) > 1:
        fault = "Invalid entity filter component combination: an ip cannot be combined with user or client-id."
        return Refusal(ErrorCode.INVALID_REQUEST, fault)
    return _Filter(exact, any_name)


def _component_fault(component: "ComponentData") -> str | None:
    if not component.entity_type:
        return "The kind of an entity cannot be empty."
    if component.match_type not in (MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED):
        return f"There is no way {component.match_type} to match."
    if (component.match is not None) != (component.match_type == MATCH_EXACT):
        return "A name is given exactly where the name is to be matched."
    return None


def _matches(entity: Mapping[str, str | None], wanted: _Filter, *, strict: bool) -> bool:
    if strict and len(entity) != len(wanted.exact) + len(wanted.any_name):
        return False
    exact = all(kind in entity and entity[kind] == name for kind, name in wanted.exact.items())
    return exact and all(kind in entity for kind in wanted.any_name)
