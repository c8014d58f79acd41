"""One retry identity, fifty calls at once, over all processes and batches: one effect, one answer, for ever.

Trap 3: a result that is kept beside its effect, under too wide or too narrow a name, or forgotten before the last retry.
"""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest

from ingress import limits
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]
pytestmark = pytest.mark.servers
CALLS = 50


def call(caller: Merchant, key: str, amount: int = 1_099) -> httpx.Response:
    """A create over a connection of its own: any ingress process may answer it, and a busy machine takes its time."""
    waits = f"wait={limits.RESULT_WAIT_MAX_S}"
    headers = {"Connection": "close", "Authorization": caller.http.headers["authorization"], "Prefer": waits}
    body = caller.envelope(key, amount=amount)
    return httpx.post(
        f"{caller.http.base_url}/v1/payment_intents", json=body, headers=headers, timeout=60, trust_env=False
    )


def test_fifty_calls_at_once_are_one_payment(public: PublicSystem, merchant: Merchant, stranger: Merchant) -> None:
    """Alone, within a list that goes into one batch, and as another caller, whose key it is not."""
    key = uuid.uuid4().hex
    lines = "\n".join(
        json.dumps({"operation": "POST /v1/payment_intents"} | merchant.envelope(key)) for _ in range(CALLS)
    )
    with ThreadPoolExecutor(CALLS) as pool:
        listed = pool.submit(
            merchant.http.post, "/v1/commands", content=lines, headers={"Content-Type": "application/x-ndjson"}
        )
        answers = list(pool.map(lambda _: call(merchant, key), range(CALLS)))
    told = [json.loads(line) for line in listed.result().text.splitlines()]
    assert {answer.status_code for answer in answers} | {line["status"] for line in told} == {201}
    ids = {answer.json()["result"]["id"] for answer in answers} | {line["result"]["id"] for line in told}
    assert len(ids) == 1
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) <= 1
    assert public.rows("select count(*) from outbox where aggregate_key = any(%s)", list(ids)) == [(1,)]
    other = call(stranger, key)
    assert (other.status_code, "idempotency-replayed" in other.headers) == (201, False)
    assert other.json()["result"]["id"] not in ids


def test_another_request_under_the_key_is_refused_and_changes_nothing(merchant: Merchant) -> None:
    key = uuid.uuid4().hex
    first = call(merchant, key)
    with ThreadPoolExecutor(10) as pool:
        refused = list(pool.map(lambda n: call(merchant, key, amount=n), range(2, 12)))
    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(422, "key_reused")}
    assert call(merchant, key).content == first.content


def test_a_retry_days_later_finds_its_answer(public: PublicSystem, merchant: Merchant) -> None:
    """On day three, and on any other: the result is never pruned, and the owner's memory of it is no part of this."""
    key = uuid.uuid4().hex
    first = call(merchant, key)
    days = 3 * 86_400
    assert days > limits.CLIENT_TRIES_MAX * limits.RESULT_WAIT_MAX_S, "longer than any client tries by itself"
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        moved = connection.execute(
            "update idempotency set created_at = created_at - %s * interval '1 second' where key = %s", (days, key)
        )
        assert moved.rowcount == 1
    again = call(merchant, key)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["idempotency-replayed"] == "true"
