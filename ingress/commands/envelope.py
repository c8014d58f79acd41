"""Makes a command envelope of a request, from body or header fields; refuses every contradiction.

If a field could be read in two ways, a retry might get another hash than its first try. So there is one reading, or
a 400.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from ingress.commands.envelope_fields import Fields, agreed, text_in, version_in
from ingress.http.requests import strict_json
from schemas import errors, identity, limits
from schemas.fields import card_number, validation
from schemas.operation import Named, Operation
from schemas.services import OPERATIONS, find

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS: Final = frozenset(
    ("operation", "request_id", "idempotency_key", "aggregate_key", "expected_version", "payload")
)
_ENVELOPE_MARKS: Final = ("idempotency_key", "payload")  # no operation's payload has fields of these names
_OF_DOCUMENTS: Final = ("idempotency_key",)  # a document may have a payload of its own
_encode: Final = msgspec.json.Encoder().encode
_BY_TEMPLATE: Final = {o.template: o for o in OPERATIONS.values() if o.scope and o.creates and "{" not in o.path}


class Request(Struct):
    """One valid mutating call, which becomes a command."""

    operation: Operation
    aggregate_key: str
    idempotency_key: str
    request_id: str | None
    expected_version: int | None
    payload: dict[str, Any]
    request_hash: bytes


def read_call(
    operation: Operation,
    path_id: str | None,
    raw: bytes,
    fields: Fields,
    merchant: str,
    said_by_token: Mapping[str, str] = MappingProxyType({}),
    said_by_route: Mapping[str, str] = MappingProxyType({}),
) -> Request:
    """The request of one HTTP call. Raises MalformedRequest, IdempotencyKeyRequired or InvalidCommand.

    ``said_by_token``: payload fields that only the caller's token may set. ``said_by_route``: payload fields from the
    path; the payload may repeat them.
    """
    body = strict_json.parse(raw) if raw.strip() else {}
    if not isinstance(body, dict):
        raise errors.MalformedRequest("The body must be a JSON object.")
    if fields.idempotency_key is not None and not any(mark in body for mark in _marks(operation)):
        body = {"payload": body}
    if said_by_route:
        body = _with_route(body, said_by_route)
    return _read(operation, path_id, body, fields, merchant, said_by_token)


def _marks(operation: Operation) -> tuple[str, ...]:
    """By which of its fields the body of a call with the header Idempotency-Key is an envelope, and no bare payload."""
    return _OF_DOCUMENTS if operation.document else _ENVELOPE_MARKS


def refuse_tenant(raw: bytes) -> None:
    """For a call without a payload. Raises MalformedRequest if its body names a tenant or is no object."""
    body = strict_json.parse(raw) if raw.strip() else {}
    if not isinstance(body, dict):
        raise errors.MalformedRequest("The body must be a JSON object.")
    _refuse_named(_tenant_in(body) or _tenant_in(_payload_of(body)))


def lines_of(raw: bytes) -> list[bytes]:
    """Those of an NDJSON list that say something."""
    return [line for line in raw.split(b"\n") if line.strip()]


def read_line(raw: bytes, merchant: str) -> Request:
    """The request of one NDJSON line, which must name its operation. Raises as ``read_call``, or TooLarge."""
    _bound_line(raw, limits.DOCUMENT_BODY_BYTES_MAX)  # which one is taken, is known when it is read
    body = strict_json.parse(raw)
    if not isinstance(body, dict):
        raise errors.MalformedRequest("A line must be a JSON object.")
    text = body.get("operation")
    if not isinstance(text, str):
        raise errors.MalformedRequest("A line must name its operation, such as POST /v1/payment_intents.")
    operation, path_id = _BY_TEMPLATE.get(text), None
    if operation is None:
        if (found := find(text)) is None:
            raise errors.MalformedRequest("The operation is not one that can be called.")
        operation, path_id = found
    if not operation.document:
        _bound_line(raw, limits.BODY_BYTES_MAX)
    if operation.audited:
        raise errors.MalformedRequest(f"{operation.template} is not taken among others: call its own route.")
    return _read(operation, path_id, body, _SILENT, merchant, {})


def _bound_line(raw: bytes, bytes_max: int) -> None:
    if len(raw) > bytes_max:
        raise errors.TooLarge(f"A line is larger than {bytes_max} bytes.")


_SILENT: Final = Fields()


def _with_route(body: dict[str, Any], said: Mapping[str, str]) -> dict[str, Any]:
    """The body with the further ids of its path in the payload. Raises MalformedRequest if it names others."""
    given = body.get("payload", {})
    if not isinstance(given, dict):
        raise errors.MalformedRequest("The payload must be a JSON object.")
    if field := next((name for name, id_ in said.items() if given.get(name, id_) != id_), None):
        raise errors.MalformedRequest(f"The field payload.{field} contradicts the route.")
    return body | {"payload": given | dict(said)}


def _read(
    operation: Operation,
    path_id: str | None,
    body: dict[str, Any],
    fields: Fields,
    merchant: str,
    said_by_token: Mapping[str, str],
) -> Request:
    _refuse_caller(operation, body)
    key = text_in(agreed("idempotency_key", body, fields.idempotency_key), "idempotency_key")
    if not key:
        raise errors.IdempotencyKeyRequired
    refuse_card_number(key)
    if not body.keys() <= _FIELDS:
        unknown = next(name for name in body if name not in _FIELDS)
        raise errors.MalformedRequest(f"The envelope has no field {unknown[:40]!r}.")
    request_id = text_in(agreed("request_id", body, fields.request_id), "request_id")
    version = version_in(agreed("expected_version", body, fields.expected_version))
    if version is None and operation.needs_version:
        raise errors.VersionRequired
    given = body.get("payload", {})
    if not isinstance(given, dict):
        raise errors.MalformedRequest("The payload must be a JSON object.")
    if operation.document:
        return _document(operation, path_id, body, given, merchant, key, request_id, version)
    if said := next((name for name in said_by_token if name in given), None):
        raise errors.MalformedRequest(f"The payload must not say {said}: it comes only from the token.")
    given = _with_its_part(operation, path_id, {**given, **said_by_token} if said_by_token else given)
    aggregate_key = _aggregate_key(operation, path_id, given, merchant, key)
    _refuse_contradictions(operation, path_id, body, aggregate_key)
    payload, wrong = operation.normalize(given)
    wrong = wrong or validation.not_to_be_said(operation.payload, given)
    wrong += _wrong_identities(key, request_id)
    if wrong:
        raise errors.InvalidCommand(wrong)
    return Request(
        operation=operation,
        aggregate_key=aggregate_key,
        idempotency_key=key,
        request_id=request_id,
        expected_version=version,
        payload=payload,
        request_hash=operation.request_hash(aggregate_key, payload),
    )


def _document(
    operation: Operation,
    path_id: str | None,
    body: dict[str, Any],
    given: dict[str, Any],
    merchant: str,
    key: str,
    request_id: str | None,
    version: int | None,
) -> Request:
    """A request whose payload is an object of the caller's own, and bounded."""
    if path_id is not None and (not path_id.strip("_") or card_number.holds_card_number(path_id)):
        raise errors.NotFound
    if len(_encode(given)) > limits.DOCUMENT_BYTES_MAX:
        raise errors.TooLarge(f"The payload is larger than {limits.DOCUMENT_BYTES_MAX} bytes as compact JSON in UTF-8.")
    aggregate_key = operation.aggregate_key(Named(path_id, given, merchant, key))
    _refuse_contradictions(operation, path_id, body, aggregate_key)
    if wrong := _wrong_identities(key, request_id):
        raise errors.InvalidCommand(wrong)
    hashed: dict[str, object] = {"document": given, "path_id": path_id}
    return Request(
        operation=operation,
        aggregate_key=aggregate_key,
        idempotency_key=key,
        request_id=request_id,
        expected_version=version,
        payload={"document": given} if path_id is None else {"document": given, operation.path_field or "id": path_id},
        request_hash=identity.request_hash(operation.template, aggregate_key, hashed),
    )


def _refuse_caller(operation: Operation, body: dict[str, Any]) -> None:
    """Raises MalformedRequest if envelope or payload name who asks. Looked at first: whatever else is missing."""
    payload = _payload_of(body)
    in_payload = _tenant_in(payload) if operation.document else validation.names_its_caller(payload, operation.payload)
    _refuse_named(_tenant_in(body) or in_payload)


def _payload_of(body: dict[str, Any]) -> dict[str, Any]:
    """What an envelope has as payload, as far as it may name anybody."""
    payload = body.get("payload")
    return payload if isinstance(payload, dict) else {}


def _tenant_in(said: dict[str, Any]) -> str | None:
    return next((name for name in validation.TENANT_NAMES if name in said), None)


def _refuse_named(name: str | None) -> None:
    if name is not None:
        raise errors.MalformedRequest(f"The request must not say {name}: it comes only from the token.")


def refuse_card_number(key: str) -> None:
    """Raises MalformedRequest when the idempotency key holds a card number: keys lie in topics, tables and logs."""
    if card_number.holds_card_number(key):
        raise errors.MalformedRequest(f"The idempotency key {card_number.REFUSED}.")


def _with_its_part(operation: Operation, path_id: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The payload with the part that the route names; a payload that names it, too, must name the same one.

    Raises MalformedRequest if it names another, NotFound for a value that cannot be an id.
    """
    field = operation.path_field
    if field is None or path_id is None:
        return given
    if not path_id.strip("_"):
        raise errors.NotFound  # an id is more than underscores
    if given.get(field, path_id) != path_id:
        raise errors.MalformedRequest(f"The field payload.{field} contradicts the route.")
    return {**given, field: path_id}


def _aggregate_key(operation: Operation, path_id: str | None, given: dict[str, Any], merchant: str, key: str) -> str:
    """The command's aggregate. Raises NotFound for an id that must not lie in the topic of commands."""
    if path_id is not None and card_number.holds_card_number(path_id):
        raise errors.NotFound
    return operation.aggregate_key(Named(path_id, given, merchant, key))


def _refuse_contradictions(operation: Operation, path_id: str | None, body: dict[str, Any], aggregate_key: str) -> None:
    said = body.get("operation")
    real = operation.template.replace("{id}", path_id) if path_id else operation.template
    if said is not None and said not in (real, operation.template):
        raise errors.MalformedRequest("The field operation contradicts the route.")
    said = body.get("aggregate_key")
    if said is not None and said != aggregate_key:
        raise errors.MalformedRequest("The field aggregate_key contradicts the route.")


def _wrong_identities(key: str, request_id: str | None) -> list[dict[str, str]]:
    wrong = []
    if reason := validation.clean_text(key, limits.IDEMPOTENCY_KEY_LENGTH_MAX):
        wrong.append({"field": "idempotency_key", "reason": reason})
    if request_id is not None and not identity.REQUEST_ID.match(request_id):
        reason = f"must have 1 to {limits.REQUEST_ID_LENGTH_MAX} characters of A-Z a-z 0-9 . _ : ~ -"
        wrong.append({"field": "request_id", "reason": reason})
    elif request_id is not None and card_number.holds_card_number(request_id):
        wrong.append({"field": "request_id", "reason": card_number.REFUSED})
    return wrong
