"""Both forms of a command mean the same, and what contradicts itself means nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.datastructures import Headers

from ingress.commands import envelope, envelope_fields
from schemas import errors, identity, limits
from schemas.fields import validation
from schemas.services import OPERATIONS
from tests.each import each

CREATE = OPERATIONS["create_payment_intent"]
CONFIRM = OPERATIONS["confirm_payment_intent"]
REFUND = OPERATIONS["create_refund"]
CANCEL_REFUND = OPERATIONS["cancel_refund"]
REFUND_ID = identity.part_id("re", "pi_abc123", "m_1")
PAYLOAD = {"amount": 1099, "currency": "USD"}


def call(
    body: object,
    headers: dict[str, str] | None = None,
    operation: Any = CREATE,
    path_id: str | None = None,
    merchant: str = "m_1",
) -> envelope.Request:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return envelope.read_call(operation, path_id, raw, envelope_fields.header_fields(Headers(headers or {})), merchant)


def test_the_two_forms_are_one_request() -> None:
    """Rule: a retry in the other form is the same request (same id, same hash)."""
    by_body = call({"idempotency_key": "k", "expected_version": 3, "request_id": "r-1", "payload": PAYLOAD})
    by_header = call(PAYLOAD, {"Idempotency-Key": "k", "If-Match": '"3"', "X-Request-Id": "r-1"})
    assert by_body == by_header
    assert by_body.aggregate_key.startswith("pi_")
    assert len(by_body.request_hash) == 32


@each("document", [{"payload": {"n": 1}}, {"payload": 5, "expected_version": 2}, {"operation": "sell", "payload": []}])
def test_a_bare_document_is_what_it_is_whatever_its_fields_are_called(document: dict[str, Any]) -> None:
    """Rule: where the identity stands in the header, the body of a document is no envelope unless it says its own."""
    create = OPERATIONS["create_resource"]
    bare = call(document, {"Idempotency-Key": "k"}, create)
    assert bare.payload["document"] == document
    assert call({"idempotency_key": "k", "payload": document}, {"Idempotency-Key": "k"}, create) == bare
    with pytest.raises(errors.MalformedRequest):
        call({"idempotency_key": "other", "payload": {"n": 1}}, {"Idempotency-Key": "k"}, create)
    with pytest.raises(errors.IdempotencyKeyRequired):
        call(document, None, create)


@each("spaced", [False, True])
def test_a_document_is_measured_by_what_it_says_not_by_how_it_is_written(spaced: bool) -> None:
    """32 KiB of it, each byte as six characters and indented: a call, and a line among others, has place for that."""
    create, kept = OPERATIONS["create_resource"], limits.DOCUMENT_BYTES_MAX - len('{"a":""}')
    for length, fits in ((kept, True), (kept + 1, False)):
        text = '{"a": "' + r"\u0061" * length + '"}' + " " * 2_000 * spaced
        body = ('{"idempotency_key": "k", "payload": ' + text + "}").encode()
        line = body.replace(b"{", b'{"operation": "POST /v1/resources", ', 1)
        assert limits.BODY_BYTES_MAX < len(line) <= create.body_bytes_max
        if fits:
            assert call(body, None, create) == call({"a": "a" * length}, {"Idempotency-Key": "k"}, create)
            assert envelope.read_line(line, "m_1") == call(body, None, create)
            continue
        for read in (lambda body=body: call(body, None, create), lambda line=line: envelope.read_line(line, "m_1")):
            with pytest.raises(errors.TooLarge, match="payload"):
                read()


def test_other_lines_have_the_usual_bound() -> None:
    line = {"operation": "POST /v1/payment_intents", "idempotency_key": "k", "payload": PAYLOAD}
    padded = json.dumps(line).encode() + b" " * limits.BODY_BYTES_MAX
    with pytest.raises(errors.TooLarge, match="line"):
        envelope.read_line(padded, "m_1")
    with pytest.raises(errors.TooLarge, match="line"):
        envelope.read_line(b" " * (limits.DOCUMENT_BODY_BYTES_MAX + 1), "m_1")


@each("name", validation.TENANT_NAMES)
@each("operation", ["create_resource", "replace_resource", "delete_resource", "change_tenant", "export_tenant"])
def test_a_tenant_that_is_said_is_refused_whatever_else_is_missing(name: str, operation: str) -> None:
    """Rule: the tenant comes from the token alone. A missing version or key is no better reason."""
    said, path_id = {name: "tn_own"}, None if operation == "create_resource" else "x_1"
    for body in ({"payload": said}, {"idempotency_key": "k", "payload": said}, said | {"idempotency_key": "k"}):
        with pytest.raises(errors.MalformedRequest):
            call(body, None, OPERATIONS[operation], path_id)
    with pytest.raises(errors.MalformedRequest):
        call(said, {"Idempotency-Key": "k"}, OPERATIONS[operation], path_id)


def test_defaults_do_not_change_the_hash() -> None:
    spelled = PAYLOAD | {"capture_method": "automatic", "metadata": {}, "payment_method": None}
    first = call({"idempotency_key": "k", "payload": PAYLOAD})
    again = call({"idempotency_key": "k", "payload": dict(reversed(spelled.items()))})
    assert first.request_hash == again.request_hash
    other = call({"idempotency_key": "k", "payload": PAYLOAD | {"amount": 1}})
    assert other.request_hash != first.request_hash
    assert other.aggregate_key == first.aggregate_key


def test_ids_are_scoped_to_the_merchant_and_the_key() -> None:
    made = {
        call({"idempotency_key": key, "payload": PAYLOAD}, merchant=merchant).aggregate_key
        for key in ("a", "b")
        for merchant in ("m_1", "m_2")
    }
    assert len(made) == 4


def test_an_action_works_on_the_id_of_its_route() -> None:
    said = {
        "idempotency_key": "k",
        "operation": "POST /v1/payment_intents/pi_1/confirm",
        "aggregate_key": "pi_1",
        "payload": {},
    }
    assert call(said, operation=CONFIRM, path_id="pi_1").aggregate_key == "pi_1"
    nothing = dict.fromkeys(("payment_method", "return_url", "customer_ip", "customer_country", "card_country"))
    assert call(b"", {"Idempotency-Key": "k"}, CONFIRM, "pi_1").payload == nothing


@each(
    ("body", "headers"),
    [
        ({"idempotency_key": "a", "payload": PAYLOAD}, {"Idempotency-Key": "b"}),
        ({"idempotency_key": "a", "expected_version": 1, "payload": PAYLOAD}, {"If-Match": '"2"'}),
        ({"idempotency_key": "a", "request_id": "x", "payload": PAYLOAD}, {"X-Request-Id": "y"}),
        ({"idempotency_key": "a", "operation": "POST /v1/refunds", "payload": PAYLOAD}, {}),
        ({"idempotency_key": "a", "aggregate_key": "pi_other", "payload": PAYLOAD}, {}),
        ({"idempotency_key": "a", "merchant_id": "m_2", "payload": PAYLOAD}, {}),
        ({"idempotency_key": "a", "payload": PAYLOAD | {"merchant_id": "m_2"}}, {}),
        ({"idempotency_key": "a", "payload": PAYLOAD | {"tenant": "t"}}, {}),
        ({"idempotency_key": "a", "payload": PAYLOAD, "colour": "red"}, {}),
        ({"idempotency_key": "a", "payload": []}, {}),
        ({"idempotency_key": "a", "payload": None}, {}),
        ({"idempotency_key": 5, "payload": PAYLOAD}, {}),
        ({"idempotency_key": "a", "request_id": 5, "payload": PAYLOAD}, {}),
        ({"idempotency_key": "a", "expected_version": "1", "payload": PAYLOAD}, {}),
        ({"idempotency_key": "a", "expected_version": True, "payload": PAYLOAD}, {}),
        ({"idempotency_key": "a", "expected_version": 1.0, "payload": PAYLOAD}, {}),
        ([], {}),
        ("text", {}),
        (None, {}),
    ],
)
def test_contradictions_and_wrong_envelopes_are_malformed(body: object, headers: dict[str, str]) -> None:
    with pytest.raises(errors.MalformedRequest):
        call(body, headers)


@pytest.mark.parametrize("match", ['W/"1"', '"1', '1"', '"a"', '"1", "2"', "-1", '"' + "9" * 40 + '"'])
def test_an_unreadable_if_match_is_malformed(match: str) -> None:
    with pytest.raises(errors.MalformedRequest):
        call(PAYLOAD, {"Idempotency-Key": "k", "If-Match": match})


def test_if_match_any_expects_nothing() -> None:
    assert call(PAYLOAD, {"Idempotency-Key": "k", "If-Match": "*"}).expected_version is None


def test_a_header_given_twice_is_malformed() -> None:
    twice = Headers(raw=[(b"idempotency-key", b"a"), (b"idempotency-key", b"a")])
    with pytest.raises(errors.MalformedRequest):
        envelope_fields.header_fields(twice)


@pytest.mark.parametrize("body", [{"payload": PAYLOAD}, PAYLOAD, {"idempotency_key": "", "payload": {}}, {}])
def test_a_key_is_required(body: object) -> None:
    with pytest.raises(errors.IdempotencyKeyRequired):
        call(body)


@each(
    ("body", "field"),
    [
        ({"idempotency_key": "k" * 300, "payload": PAYLOAD}, "idempotency_key"),
        ({"idempotency_key": "a\u0000b", "payload": PAYLOAD}, "idempotency_key"),
        ({"idempotency_key": "k", "request_id": "a/b", "payload": PAYLOAD}, "request_id"),
        ({"idempotency_key": "k", "request_id": "r" * 200, "payload": PAYLOAD}, "request_id"),
        ({"idempotency_key": "k", "expected_version": -1, "payload": PAYLOAD}, "expected_version"),
        ({"idempotency_key": "k", "expected_version": 2**60, "payload": PAYLOAD}, "expected_version"),
        ({"idempotency_key": "k", "payload": PAYLOAD | {"amount": 0}}, "payload.amount"),
        (b'{"idempotency_key": "k", "payload": {"amount": 1e3, "currency": "USD"}}', "payload.amount"),
        (b'{"idempotency_key": "k", "payload": {"amount": 10.0, "currency": "USD"}}', "payload.amount"),
        ({"idempotency_key": "k", "payload": PAYLOAD | {"amount": 2**53}}, "payload.amount"),
        ({"idempotency_key": "k", "payload": PAYLOAD | {"colour": "red"}}, "payload.colour"),
        ({"idempotency_key": "k", "payload": {"amount": 5}}, "payload.currency"),
    ],
)
def test_wrong_values_name_their_field(body: object, field: str) -> None:
    with pytest.raises(errors.InvalidCommand) as caught:
        call(body)
    assert field in {error["field"] for error in caught.value.errors}


def test_all_wrong_values_are_told_at_once() -> None:
    with pytest.raises(errors.InvalidCommand) as caught:
        call({"idempotency_key": "k" * 300, "payload": {"amount": 0, "currency": "XYZ"}})
    fields = [error["field"] for error in caught.value.errors]
    assert fields == ["payload.amount", "payload.currency", "idempotency_key"]


def test_a_line_names_its_operation() -> None:
    line = {"operation": "POST /v1/payment_intents/pi_9/confirm", "idempotency_key": "k", "payload": {}}
    request = envelope.read_line(json.dumps(line).encode(), "m_1")
    assert (request.operation.name, request.aggregate_key) == ("confirm_payment_intent", "pi_9")
    same = call({"idempotency_key": "k", "payload": {}}, operation=CONFIRM, path_id="pi_9")
    assert request.request_hash == same.request_hash


@each(
    "operation",
    [
        None,
        5,
        "",
        "GET /v1/payment_intents",
        "POST /v1/payment_intents/",
        "POST /v1/payment_intents/a/b/confirm",
        "POST /v1/payment_intents/{id}/confirm",
        "FACT /processor_attempts/pi_1/outcome",
        "POST /v1/payment_intents\n",
    ],
)
def test_a_line_with_another_operation_is_malformed(operation: object) -> None:
    """Facts of our own workers cannot be called from outside."""
    line = {"operation": operation, "idempotency_key": "k", "payload": PAYLOAD}
    with pytest.raises(errors.MalformedRequest):
        envelope.read_line(json.dumps(line).encode(), "m_1")


def test_the_longest_allowed_key_is_taken() -> None:
    key = "ключ-" + "k" * (limits.IDEMPOTENCY_KEY_LENGTH_MAX - 5)
    assert call({"idempotency_key": key, "payload": PAYLOAD}).idempotency_key == key


def test_a_refund_is_of_the_payment_that_it_names() -> None:
    """Rule: its owner is the owner of the payment, so its partition key is the payment's id."""
    payload = {"payment_intent": "pi_9", "amount": 5}
    request = call({"idempotency_key": "k", "aggregate_key": "pi_9", "payload": payload}, operation=REFUND)
    assert request.aggregate_key == "pi_9"
    assert request == call(payload, {"Idempotency-Key": "k"}, REFUND)
    line = {"operation": "POST /v1/refunds", "idempotency_key": "k", "payload": payload}
    assert envelope.read_line(json.dumps(line).encode(), "m_1") == request
    other = call({"idempotency_key": "k", "payload": payload | {"payment_intent": "pi_8"}}, operation=REFUND)
    assert other.request_hash != request.request_hash


def test_a_canceled_refund_is_found_by_its_own_id() -> None:
    """The id of the route travels in the payload; the payment in it names the owner."""
    request = call(b"", {"Idempotency-Key": "k"}, CANCEL_REFUND, REFUND_ID)
    assert (request.aggregate_key, request.payload) == ("pi_abc123", {"refund": REFUND_ID})
    said = {"idempotency_key": "k", "aggregate_key": "pi_abc123", "payload": {"refund": REFUND_ID}}
    assert call(said, operation=CANCEL_REFUND, path_id=REFUND_ID) == request
    line = {"operation": f"POST /v1/refunds/{REFUND_ID}/cancel", "idempotency_key": "k"}
    assert envelope.read_line(json.dumps(line).encode(), "m_1") == request


@pytest.mark.parametrize(
    ("operation", "path_id", "body"),
    [
        (REFUND, None, {"aggregate_key": "pi_8", "payload": {"payment_intent": "pi_9"}}),
        (REFUND, None, {"aggregate_key": "pi_8", "payload": {}}),
        (CANCEL_REFUND, REFUND_ID, {"payload": {"refund": REFUND_ID[:-1] + "x"}}),
        (CANCEL_REFUND, REFUND_ID, {"payload": {"refund": None}}),
        (CANCEL_REFUND, REFUND_ID, {"payload": {"refund": [REFUND_ID]}}),
        (CANCEL_REFUND, REFUND_ID, {"aggregate_key": REFUND_ID, "payload": {}}),
        (CANCEL_REFUND, REFUND_ID, {"operation": f"POST /v1/refunds/{REFUND_ID}x/cancel", "payload": {}}),
    ],
)
def test_a_part_is_named_once(operation: Any, path_id: str | None, body: dict[str, Any]) -> None:
    """Rule: the part that is checked is the part that is worked on."""
    with pytest.raises(errors.MalformedRequest):
        call({"idempotency_key": "k"} | body, operation=operation, path_id=path_id)


@each("named", [5, None, [], {"id": "pi_1"}, "", "pi 1", "pi_1\n", "pi_" + "a" * 62, "pi-1", "___", "pi_é"])
def test_a_payment_is_named_by_an_id(named: object) -> None:
    with pytest.raises(errors.InvalidCommand) as caught:
        call({"idempotency_key": "k", "payload": {"payment_intent": named}}, operation=REFUND)
    assert [error["field"] for error in caught.value.errors] == ["payload.payment_intent"]


@pytest.mark.parametrize("path_id", ["re_", "re", "_x", "dp_abc_x", "x" * 64])
def test_an_id_of_anything_names_some_partition(path_id: str) -> None:
    """What is no refund is told by the owner: there is no such object."""
    request = call(b"", {"Idempotency-Key": "k"}, CANCEL_REFUND, path_id)
    assert request.payload == {"refund": path_id}
    assert 1 <= len(request.aggregate_key) <= limits.AGGREGATE_KEY_LENGTH_MAX
    with pytest.raises(errors.NotFound):
        call(b"", {"Idempotency-Key": "k"}, CANCEL_REFUND, "__")


def test_a_payout_goes_to_its_merchants_account_in_every_form() -> None:
    """Made: the caller's account. Worked on: the account that its id names, which its owner compares with the caller."""
    account = identity.account_id("m_1")
    payload = {"amount": 5, "currency": "EUR", "destination": "main"}
    line = {"operation": "POST /v1/payouts", "idempotency_key": "k", "payload": payload}
    made = envelope.read_line(json.dumps(line).encode(), "m_1")
    assert made.aggregate_key == account
    payout = identity.payout_id(account, "m_1", "k")
    line = {"operation": f"POST /v1/payouts/{payout}/cancel", "idempotency_key": "c", "payload": {}}
    canceled = envelope.read_line(json.dumps(line).encode(), "m_2")
    assert (canceled.aggregate_key, canceled.payload) == (account, {"payout": payout})
    assert canceled.aggregate_key != identity.account_id("m_2")


@pytest.mark.parametrize("operation", ["freeze_account", "hold_reserve", "record_payout_outcome"])
def test_what_is_an_operators_is_no_line_of_anybody(operation: str) -> None:
    """It has routes of its own, which audit it."""
    path = OPERATIONS[operation].path.replace("{id}", "m_1")
    line = {"operation": f"POST {path}", "idempotency_key": "k", "payload": {}}
    with pytest.raises(errors.MalformedRequest):
        envelope.read_line(json.dumps(line).encode(), "m_1")


def test_whose_account_an_operator_works_on_stands_in_the_path() -> None:
    raw = json.dumps({"reason": "court order"}).encode()
    fields = envelope_fields.Fields(idempotency_key="k")
    request = envelope.read_call(OPERATIONS["freeze_account"], "m_7", raw, fields, "m_ops")
    assert request.aggregate_key == identity.account_id("m_7")
    assert request.payload == {"merchant_id": "m_7", "reason": "court order"}


@pytest.mark.parametrize("limit", ["5", "", "007", 1.0, True, -1, 2**53])
def test_a_form_in_which_commands_travel_is_not_taken_from_a_caller(limit: object) -> None:
    tenant = OPERATIONS["create_tenant"]
    with pytest.raises(errors.InvalidCommand) as refused:
        call({"name": "A", "quotas": {"resources": limit}}, {"Idempotency-Key": "k"}, tenant)
    assert [one["field"] for one in refused.value.errors] == ["payload.quotas"]
    taken = call({"name": "A", "quotas": {"resources": 5, "seats": None}}, {"Idempotency-Key": "k"}, tenant)
    assert taken.payload["quotas"] == {"resources": "5", "seats": ""}
    assert tenant.normalize(taken.payload) == (taken.payload, [])  # as its owner reads it
