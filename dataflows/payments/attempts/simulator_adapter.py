"""The adapter of the processor simulator. It parses strictly: what is not exactly an answer to our call is Unknown."""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

import msgspec

from dataflows.owner import fail_points
from dataflows.payments.attempts.adapter import (
    Answer,
    Call,
    Definitive,
    DefinitiveStatus,
    NotExecuted,
    NotSent,
    Pending,
    RequiresAction,
    Unknown,
)
from dataflows.payments.attempts.http_connection import HttpAnswer, NoAnswerError, NotConnectedError
from dataflows.payments.attempts.http_pool import HttpPool
from dataflows.payments.attempts.vault_route import VaultForwarding, VaultRoute, needs_vault
from schemas import limits
from schemas.fields.validation import clean_text, web_address
from schemas.identity import is_card_token
from schemas.payments.facts import FAILED_LATER
from schemas.payments.records import RefundPendingReason

if TYPE_CHECKING:
    from collections.abc import Mapping

PROCESSOR: Final = "simulator"
_OPERATIONS: Final = "/v1/operations"
_MS_US: Final = 1_000
#: refusals of a request that was never executed and never will be: the attempt has failed
_REFUSED_CODES: Final = frozenset(
    {
        "malformed_request",
        "idempotency_key_required",
        "too_large",
        "unsupported_media_type",
        "invalid_operation",
    }
)
#: refusals that say nothing about the operation itself: it was not executed and may be sent again
_LATER_STATUSES: Final = frozenset({401, 403, 429})
_STATUSES_OF_KIND: Final[Mapping[str, frozenset[str]]] = {
    "authorize": frozenset({"authorized", "requires_action", "voided", "declined", "failed"}),
    "purchase": frozenset({"captured", "requires_action", "declined", "failed"}),
    "capture": frozenset({"captured", "declined", "failed"}),
    "void": frozenset({"voided", "declined", "failed"}),
    "refund": frozenset({"refunded", "requires_action", "pending", "declined", "failed"}),
    "increment": frozenset({"authorized", "declined", "failed"}),
    "evidence": frozenset({"submitted", "declined", "failed"}),
}


class _Operation(msgspec.Struct, frozen=True, kw_only=True):
    provider_ref: str
    operation_id: str
    kind: Literal["authorize", "purchase", "increment", "capture", "void", "refund", "evidence"]
    status: DefinitiveStatus | Literal["pending", "requires_action"]
    reference: str
    amount: int
    currency: str
    decline_code: str | None
    after_success: bool = False
    redirect_url: str | None = None
    authorized_until_ms: int | None = None
    pending_reason: RefundPendingReason | None = None


class _Problem(msgspec.Struct, frozen=True):
    code: str


_operation_of = msgspec.json.Decoder(_Operation).decode
_problem_of = msgspec.json.Decoder(_Problem).decode
_encode = msgspec.json.Encoder().encode


class SimulatorAdapter:
    """Calls one simulator over HTTP; see ``ProcessorAdapter`` for what its answers mean."""

    def __init__(self, base_url: str, name: str = PROCESSOR, vault: VaultRoute | None = None) -> None:
        """Raises ValueError when an address is none."""
        self._pool = HttpPool(base_url)
        self._name = name
        self._vault = None if vault is None else VaultForwarding(vault, name)

    @property
    def name(self) -> str:
        """The processor's name as intents carry it."""
        return self._name

    @property
    def identity_kept_s(self) -> float:
        """A simulator's book keeps every identity for ever."""
        return math.inf

    async def is_reachable(self) -> bool:
        """Whether its book answers."""
        try:
            answer = await self._pool.request("GET", "/readyz", [])
        except (NotConnectedError, NoAnswerError):
            return False
        return answer.status == HTTPStatus.OK

    async def send(self, call: Call) -> Answer:
        """POST under the operation's identity, through the vault when it alone knows the card."""
        headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json"),
            ("Idempotency-Key", call.operation_id),
        ]
        if needs_vault(call):
            if self._vault is None:
                return NotExecuted("no_vault")
            forwarded = await self._vault.request(call, _OPERATIONS, headers, _body_of(call), _written)
            return answer_to_send(call, forwarded) if isinstance(forwarded, HttpAnswer) else forwarded
        try:
            answer = await self._pool.request("POST", _OPERATIONS, headers, _encode(_body_of(call)), _written)
        except NotConnectedError:
            return NotSent("not_connected")
        except NoAnswerError as error:
            return Unknown(str(error), is_outage=True)
        return answer_to_send(call, answer)

    async def query(self, call: Call) -> Answer:
        """GET of the operation. A 404 in the processor's own words is proof that no send was executed."""
        try:
            answer = await self._pool.request(
                "GET", f"{_OPERATIONS}/{quote(call.operation_id, safe='')}", [("Accept", "application/json")]
            )
        except NotConnectedError:
            return NotSent("not_connected")
        except NoAnswerError as error:
            return Unknown(str(error), is_outage=True)
        return answer_to_query(call, answer)

    async def end_wait(self, call: Call, waits: RequiresAction) -> Answer:  # noqa: ARG002 - of any call
        """After a quarter of an hour the simulator ends it itself."""
        return waits

    async def close(self) -> None:
        """Closes idle connections."""
        self._pool.close()
        if self._vault is not None:
            self._vault.close()


def _body_of(call: Call) -> dict[str, object]:
    """The operation in the processor's words; a token of the vault's means nothing to it."""
    return {
        "kind": call.kind,
        "reference": call.intent_id,
        "amount": call.amount,
        "currency": call.currency,
        "token": None if call.kind == "evidence" or is_card_token(call.payment_method) else call.payment_method,
        "parent": call.parent_ref,
        "final": call.final,
        **({} if call.evidence is None else {"evidence": call.evidence}),
    }


def answer_to_send(call: Call, answer: HttpAnswer) -> Answer:
    """What a POST's answer says for certain."""
    if answer.status == HTTPStatus.OK:
        return _definitive(call, answer.body)
    if answer.status in _LATER_STATUSES:
        return NotExecuted(f"http_{answer.status}")
    code = _problem_code(answer.body)
    if HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR and code in _REFUSED_CODES:
        return Definitive(status="failed", provider_ref=None, amount=None, currency=None, error_code=code)
    return _unreadable(answer)


def answer_to_query(call: Call, answer: HttpAnswer) -> Answer:
    """What a GET's answer says for certain."""
    if answer.status == HTTPStatus.OK:
        return _definitive(call, answer.body)
    if answer.status == HTTPStatus.NOT_FOUND and _problem_code(answer.body) == "not_found":
        return NotExecuted("not_found")
    return _unreadable(answer)


def _definitive(call: Call, body: bytes) -> Answer:
    try:
        operation = _operation_of(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Unknown("unparseable")
    if operation.operation_id != call.operation_id or operation.reference != call.intent_id:
        return Unknown("answer_to_another_call")
    if operation.kind != call.kind or operation.status not in _STATUSES_OF_KIND[operation.kind]:
        return Unknown("answer_of_another_kind")
    texts = (operation.provider_ref, operation.currency, operation.decline_code or "none")
    is_clean = not any(clean_text(text, limits.TEXT_LENGTH_MAX) for text in texts)
    is_clean = is_clean and (operation.redirect_url is None or web_address(operation.redirect_url) is None)
    until_ms = operation.authorized_until_ms
    is_clean = is_clean and (until_ms is None or 0 <= until_ms <= limits.TIME_US_MAX // _MS_US)
    if not is_clean or not 0 <= operation.amount <= limits.AMOUNT_MINOR_MAX:
        return Unknown("unparseable")
    return _known(operation)


def _known(operation: _Operation) -> Answer:
    """What an operation that is ours and clean says."""
    if operation.status == "pending":
        return Pending(operation.provider_ref, operation.pending_reason)
    if operation.status == "requires_action":
        return RequiresAction(operation.provider_ref, operation.redirect_url)
    # a hold that ended says why, as a refusal does
    is_ended = (operation.kind, operation.status) == ("authorize", "voided")
    refused = operation.status in {"declined", "failed"} or is_ended
    until_ms = operation.authorized_until_ms
    return Definitive(
        status=FAILED_LATER if operation.status == "failed" and operation.after_success else operation.status,
        provider_ref=operation.provider_ref,
        amount=operation.amount,
        currency=operation.currency,
        error_code=(operation.decline_code or operation.status) if refused else None,
        authorized_until=None if until_ms is None else until_ms * _MS_US,
    )


def _unreadable(answer: HttpAnswer) -> Unknown:
    return Unknown(f"http_{answer.status}", is_outage=answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR)


def _problem_code(body: bytes) -> str | None:
    try:
        return _problem_of(body).code
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _written() -> None:
    fail_points.reach("attempt_after_send")
