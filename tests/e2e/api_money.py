"""Objects of payments, of merchants and of staff that the calls of the document are about."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.e2e.api_caller import Caller
from tests.e2e.tokens_by_scope import SCOPES
from tests.eventually import becomes, eventually
from tests.worlds.payments.repair_world import opened, posted_by_hand

if TYPE_CHECKING:
    from tests.e2e.api_world import ApiWorld

Json = dict[str, Any]
_NOW: Final = datetime.now(UTC)
_ZULU: Final = "%Y-%m-%dT%H:%M:%SZ"
_PAYMENT: Final = {"amount": 1_099, "currency": "USD", "payment_method": "tok_sim_approve"}
_MONEY: Final = {"amount": 5, "currency": "USD", "reason": "many refunds"}
_CLOSING: Final = {"reason": "explained", "note": "seen"}
_REPAIR: Final = {"template": "write_off", "amount": 700, "currency": "USD", "note": "never paid"}


def _public_key() -> Json:
    made = Ed25519PrivateKey.generate().public_key()
    return {"public_key": made.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()}


def of_payments(world: ApiWorld) -> None:
    merchant, create = world.who["merchant"], "/v1/payment_intents"

    def intent(state: str = "", **more: Any) -> str:
        made: str = merchant.does("POST", create, _PAYMENT | more)["id"]
        if state:
            merchant.does("POST", f"{create}/{made}/confirm")
            becomes(lambda: merchant.does("GET", f"{create}/{made}")["state"], state)
        return made

    for verb in ("update", "get", "confirm", "cancel"):
        world.about({"intent_id": intent()}, f"{verb}_payment_intent")
    world.about({"intent_id": intent()}, "list_risk_assessments")
    world.about({"intent_id": intent("requires_capture", capture_method="manual")}, "capture_payment_intent")
    world.about({"intent_id": intent("requires_capture", capture_method="manual")}, "increment_authorization")
    paid = intent("succeeded")
    world.bodies |= {
        "update_payment_intent": {"amount": 2_000},
        "increment_authorization": {"amount": 2_000},
        "create_refund": {"payment_intent": paid, "amount": 9},
        "carry_out_commands": json.dumps(
            {"operation": f"POST {create}", "idempotency_key": uuid.uuid4().hex, "payload": _PAYMENT}
        ),
    }
    refund = merchant.does("POST", "/v1/refunds", {"payment_intent": paid, "amount": 99})
    world.about({"refund_id": refund["id"]}, "get_refund")
    request_id = uuid.uuid4().hex
    headers = {"Idempotency-Key": request_id, "X-Request-Id": request_id}
    merchant.http.post(create, json=_PAYMENT, headers=headers)
    world.about({"request_id": request_id}, "get_operation")


def of_merchants(world: ApiWorld) -> None:
    merchant, staff = world.who["merchant"], world.who["staff"]
    account = {"name": "Hausbank", "account_number": "DE89370400440532013000"}
    destinations = [
        merchant.does("POST", "/v1/payout_destinations", account | {"name": str(n)})["id"] for n in range(2)
    ]
    world.about({"destination_id": destinations[0]}, "get_payout_destination", "disable_payout_destination")
    mine = f"merchant_{world.name}"
    allowed = {"destination": destinations[1], "reason": "asked by telephone"}
    _agreed(world, f"/v1/accounts/{mine}/allow_payout_destination", allowed)
    _funded(world, mine)
    payout = {"amount": 5, "currency": "EUR", "destination": destinations[1]}
    payouts = [merchant.does("POST", "/v1/payouts", payout)["id"] for _ in range(2)]
    world.bodies |= {
        "create_payout": payout,
        "record_payout_outcome": {"status": "paid", "amount": 5, "currency": "EUR"},
    }
    world.about({"payout_id": payouts[0]}, "get_payout", "cancel_payout")
    world.about({"payout_id": payouts[1]}, "record_payout_outcome")
    of_endpoints = [{"url": f"https://shop.example/{n}"} for n in range(2)]
    one, gone = (merchant.does("POST", "/v1/webhook_endpoints", said)["id"] for said in of_endpoints)
    of_one = ("get_webhook_endpoint", "rotate_webhook_secret", "enable_webhook_endpoint", "list_webhook_deliveries")
    world.about({"endpoint_id": one}, *of_one)
    world.about({"endpoint_id": gone}, "delete_webhook_endpoint")
    for whose in (mine, f"signs_{world.name}"):
        signing = Caller(world.public, world.public.token(whose, SCOPES["signer"]))
        key = signing.does("POST", "/v1/signing_keys", _public_key())["id"]
        signing.http.close()
        of_key = "get_signing_key" if whose == mine else "revoke_signing_key_of"
        world.about({"key_id": key} | ({"merchant": whose} if whose != mine else {}), of_key)
    span = {"from": (_NOW - timedelta(days=2)).strftime(_ZULU), "to": (_NOW - timedelta(days=1)).strftime(_ZULU)}
    world.queries["get_report"] = span
    world.about({"report": "balance"}, "get_report")
    world.about(
        {"merchant": mine}, "get_account", "list_payout_destinations_of_account", "list_signing_keys_of", "allow_payout_destination",
        "convert_currency", "hold_reserve", "release_reserve", "set_signature_requirement_of",
    )  # fmt: skip
    frozen, let_go = ({"merchant": f"{name}_{world.name}"} for name in ("frozen", "let_go"))
    world.about(frozen, "freeze_account")
    world.about(let_go, "unfreeze_account")
    staff.does("POST", f"/v1/accounts/{let_go['merchant']}/freeze", {"reason": "a court's order"})


def _agreed(world: ApiWorld, path: str, payload: Json) -> None:
    """What moves money is proposed by one person, and approved by another."""
    proposal = world.who["operator:finance"].does("POST", path, payload)["id"]

    def done() -> bool:
        answer = world.who["staff"].http.post(f"/v1/money_proposals/{proposal}/approve")
        assert answer.status_code in (200, 202), answer.text
        return bool(answer.json()["state"] == "done")

    eventually(done)


def _funded(world: ApiWorld, merchant: str) -> None:
    entries = [
        {"account_id": f"{account}:EUR", "debit": debit, "credit": 100 - debit, "currency": "EUR", "amount": 100}
        for account, debit in (("processor_receivable:simulator", 100), (f"merchant_available:{merchant}", 0))
    ]
    posted_by_hand(world.public, [{k: v for k, v in entry.items() if k != "amount"} for entry in entries])


def of_staff(world: ApiWorld) -> None:
    finance, case = world.who["operator:finance"], opened(world.public)
    one = {"case_id": case}
    world.about(one, "list_repairs", "propose_repair", "list_closings", "list_outcomes", "get_case")
    repairs = {
        verb: finance.does("POST", f"/v1/cases/{opened(world.public)}/proposals", _REPAIR)["id"]
        for verb in ("get", "approve", "reject")
    }
    for verb, repair in repairs.items():
        world.about({"repair_id": repair}, f"{verb}_repair")
    world.bodies["propose_repair"] = _REPAIR
    support = world.who["operator:support"]
    for verb in ("get", "approve", "reject"):
        of = opened(world.public)
        closing = support.does("POST", f"/v1/cases/{of}/closings", _CLOSING)["id"]
        world.about({"case_id": of, "closing_id": closing}, f"{verb}_closing")
    world.about({"case_id": opened(world.public)}, "close_case")
    closed = opened(world.public)
    closing = support.does("POST", f"/v1/cases/{closed}/closings", _CLOSING)["id"]
    world.who["staff"].does("POST", f"/v1/cases/{closed}/closings/{closing}/approve")
    world.about({"case_id": closed}, "reopen_case")
    posted = finance.does("POST", f"/v1/cases/{opened(world.public)}/proposals", _REPAIR)["id"]
    approve = f"/v1/repairs/{posted}/approve"
    becomes(lambda: world.who["staff"].http.post(approve).json()["state"], "posted")
    world.about({"repair_id": posted}, "reverse_repair")
    account = f"/v1/accounts/merchant_{world.name}"
    for verb in ("get", "approve", "reject"):
        proposal = finance.does("POST", f"{account}/hold_reserve", _MONEY)["id"]
        world.about({"proposal_id": proposal}, f"{verb}_money_proposal")
    world.about({"kind": "merchant"}, "deny_access", "lift_access_denial")
    denied = {"name": f"denied_{world.name}", "reason": "a court's order"}
    world.who["operator:risk"].does("POST", "/v1/access_denials/user", denied)
    world.bodies |= {"deny_access": denied, "lift_access_denial": denied}
    world.about({"kind": "user"}, "lift_access_denial")
