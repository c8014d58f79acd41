"""Payments by a card that only the vault knows: its number reaches the processor and no place of the worker's."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ingress.identity.issuer import SCOPES_DEFAULT, KeyFolder, issue_token
from schemas.payments import limits
from tests.eventually import eventually, patient
from tests.worlds.payments.attempts_world import MERCHANT, AttemptsWorld, new_attempt, next_attempt, world

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["world"]
pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def working(world: AttemptsWorld) -> Iterator[AttemptsWorld]:
    """A simulator, a vault and one worker."""
    for service in ("simulator", "vault", "processor_worker"):
        world.start(service)
    yield world
    world.end_all()


def token_of(world: AttemptsWorld, number: str, merchant: str = MERCHANT) -> str:
    bearer = issue_token(KeyFolder(world.settings.the_home().path / "keys"), merchant, SCOPES_DEFAULT)
    payload = {"number": number, "exp_month": 12, "exp_year": 2035, "cvc": "123"}
    answer = httpx.post(
        f"{world.settings.addresses().vault_url}/v1/tokens",
        json={"idempotency_key": uuid.uuid4().hex, "payload": payload},
        headers={"Authorization": f"Bearer {bearer}"},
        timeout=20,
        trust_env=False,
    )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["result"]["id"])


def test_a_vault_token_pays_and_is_refunded(working: AttemptsWorld) -> None:
    """The charge goes through the vault; what follows it needs no card and goes straight to the processor."""
    attempt = new_attempt(token_of(working, "4242424242424242"))
    working.publish(attempt)
    ref = working.fact(attempt, "captured").payload["provider_ref"]
    refund = next_attempt(attempt, 2, kind="refund", amount=34, parent_ref=ref)
    working.publish(refund)
    working.fact(refund, "refunded")
    effects = working.effects()
    assert (effects[attempt["operation_id"]], effects[refund["operation_id"]]) == (1, 1)


def test_a_declined_card_is_the_processors_word(working: AttemptsWorld) -> None:
    attempt = new_attempt(token_of(working, "4000000000000002"))
    working.publish(attempt)
    assert working.fact(attempt, "declined").payload["error_code"] == "card_declined"


def test_a_token_of_nobody_or_of_another_merchant_fails_for_good(working: AttemptsWorld) -> None:
    """The vault says so in its own name: nothing was sent, and no retry would change that."""
    attempts = [new_attempt("tok_" + "a" * 24), new_attempt(token_of(working, "4242424242424242", "m_other"))]
    working.publish(*attempts)
    for attempt in attempts:
        assert working.fact(attempt, "failed").payload["error_code"] == "payment_method_unknown"
        assert working.effects()[attempt["operation_id"]] == 0


def test_no_number_is_where_the_worker_or_the_processor_writes(working: AttemptsWorld) -> None:
    """Tables of the attempts, facts in Kafka, and every file of the processor."""
    number = "5555555555554444"
    attempt = new_attempt(token_of(working, number))
    working.publish(attempt)
    working.fact(attempt, "captured")
    with working.database() as connection:
        rows = connection.execute("select d::text from attempt_dispatch d").fetchall()
    assert rows
    assert number not in str(rows)
    assert number not in str(working.all_facts())
    folder = working.settings.the_home().data("simulator")
    assert not any(number.encode() in file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.faults
def test_a_vault_that_is_away_holds_up_nobody_else(working: AttemptsWorld) -> None:
    """Nothing was sent, so nothing is in doubt; cards that need no vault go on, and these when it is back."""
    token = token_of(working, "4242424242424242")
    (vault,) = [p for p in working.processes if "vault" in p.args]  # type: ignore[operator] # a list of words
    working.end(vault)
    waiting: list[dict[str, Any]] = [new_attempt(token) for _ in range(limits.ATTEMPT_BREAKER_FAILURES + 5)]
    working.publish(*waiting)
    eventually(lambda: all((row := working.row(a)) and row["error_code"] == "vault_not_connected" for a in waiting))
    started = time.monotonic()
    other = new_attempt()
    working.publish(other)
    working.fact(other, "captured")
    assert time.monotonic() - started < patient(limits.ATTEMPT_BREAKER_OPEN_MS * 5 / 1_000)
    working.start("vault")
    for attempt in waiting:
        working.fact(attempt, "captured", within_s=25)
        assert set(working.statuses(attempt, 1)) == {"captured"}
