"""A card from its holder to the processor and back through the whole system, and no trace of it outside the vault."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.eventually import eventually, patient
from tests.servers import run_servers
from tests.worlds.payments.card_traces import a_card_number, everywhere, in_files, in_memory
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers
# In no other test: those that show that the API refuses a card number send it one, which stays in its memory for a while.
APPROVED, DECLINED = NUMBERS = (a_card_number("2832"), a_card_number("0002"))


def tokenize(public: PublicSystem, caller: Merchant, number: str, **changes: Any) -> httpx.Response:
    payload = {"number": number, "exp_month": 12, "exp_year": 2035, "cvc": "123"} | changes
    url = f"{public.settings.addresses().vault_url}/v1/tokens"
    headers = {"Authorization": caller.http.headers["authorization"]}
    body = {"idempotency_key": uuid.uuid4().hex, "payload": payload}
    return httpx.post(url, json=body, headers=headers, timeout=patient(20), trust_env=False)


def token(public: PublicSystem, caller: Merchant, number: str = APPROVED) -> str:
    answer = tokenize(public, caller, number)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["result"]["id"])


def settled(caller: Merchant, intent_id: str, state: str) -> dict[str, Any]:
    def in_state() -> dict[str, Any] | None:
        intent = caller.http.get(f"/v1/payment_intents/{intent_id}").json()
        return dict(intent) if intent["state"] == state else None

    return eventually(in_state, 60, what=f"{intent_id} is {state}")


def test_a_foreign_token_is_refused_wherever_it_is_named(
    public: PublicSystem, merchant: Merchant, stranger: Merchant
) -> None:
    """Create and confirm, alone and in a list; unknown and deleted tokens alike; the simulator's are nobody's."""
    own, none = token(public, merchant), f"tok_{'a' * 24}"
    for bad in (own, none):
        for answer in (
            stranger.create(payment_method=bad),
            stranger.act(
                stranger.create(payment_method=None).json()["result"]["id"], "confirm", payload={"payment_method": bad}
            ),
        ):
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command")
            assert [e["field"] for e in answer.json()["errors"]] == ["payload.payment_method"]
    intent = stranger.create(payment_method=None).json()["result"]["id"]
    lines = [
        {"operation": "POST /v1/payment_intents"} | stranger.envelope(payment_method=own),
        {"operation": "POST /v1/payment_intents"} | stranger.envelope(payment_method="tok_sim_approve"),
        {
            "operation": f"POST /v1/payment_intents/{intent}/confirm",
            "idempotency_key": "c",
            "payload": {"payment_method": own},
        },
        {"operation": "POST /v1/payment_intents"} | stranger.envelope(payment_method=token(public, stranger)),
    ]
    text = "\n".join(json.dumps(line) for line in lines)
    answers = stranger.http.post("/v1/commands", content=text, headers={"Content-Type": "application/x-ndjson"})
    told = [json.loads(line) for line in answers.text.splitlines()]
    assert [line["status"] for line in told] == [422, 201, 422, 201]
    assert {e["field"] for line in (told[0], told[2]) for e in line["problem"]["errors"]} == {"payload.payment_method"}


def test_a_retry_hears_its_stored_result_when_the_token_is_gone(public: PublicSystem, merchant: Merchant) -> None:
    """The check is for new commands: a decided one is answered as it was decided."""
    made = token(public, merchant)
    first = merchant.create("k", payment_method=made)
    url = f"{public.settings.addresses().vault_url}/v1/tokens/{made}"
    headers = {"Authorization": merchant.http.headers["authorization"]}
    assert httpx.delete(url, headers=headers, timeout=patient(20), trust_env=False).status_code == 200
    again = merchant.create("k", payment_method=made)
    assert (again.status_code, again.content) == (first.status_code, first.content) == (201, first.content)


def files_on_servers(public: PublicSystem) -> list[Path]:
    """What the servers of the run keep of this system: the files of its database and of its topics."""
    home = run_servers().the_home()
    ((database,),) = public.rows("select oid from pg_database where datname = current_database()")
    # by their own names: folders of other tests' topics vanish meanwhile
    topics = [*(home.data("kafka") / "topics").glob(f"{public.settings.kafka_prefix}*-*")]
    tables = [home.data("postgres") / "base" / str(database)]
    found = [folder for folder in (*topics, *tables) if folder.is_dir()]
    assert len(found) > len(topics) > 0
    return found


@pytest.mark.timeout(240)  # reads every byte of logs, topics and tables
def test_cards_pay_and_leave_no_trace(public: PublicSystem, merchant: Merchant) -> None:
    """One approved, one declined, some refused; then every table, topic, file and process but the vault's is searched."""
    paid = merchant.create(payment_method=token(public, merchant), amount=900).json()["result"]["id"]
    assert merchant.act(paid, "confirm").status_code == 200
    named_later = merchant.create(payment_method=None).json()["result"]["id"]
    named = {"payload": {"payment_method": token(public, merchant, DECLINED)}}
    assert merchant.act(named_later, "confirm", **named).status_code == 200
    assert tokenize(public, merchant, APPROVED[:-1] + "1").status_code == 422
    assert tokenize(public, merchant, DECLINED, exp_year=2001).status_code == 422
    grouped = " ".join(APPROVED[at : at + 4] for at in range(0, 16, 4))
    assert tokenize(public, merchant, grouped).json()["result"]["last4"] == "2832"
    assert settled(merchant, paid, "succeeded")["amount_received"] == 900
    assert settled(merchant, named_later, "requires_payment_method")["last_payment_error"]
    found = everywhere(public.settings.addresses(), public.settings.the_home().path, NUMBERS)
    assert found == {"postgres": [], "kafka": [], "clickhouse": [], "files": []}
    folders = files_on_servers(public)
    assert {folder: in_files(folder, NUMBERS) for folder in folders} == {folder: [] for folder in folders}
    for service in ("ingress", "owner", "processor_worker", "clickhouse_sink"):
        for pid in public.pids(service):
            assert in_memory(pid, ["idempotency_key"]), "the search itself: each of them knows this word"
            assert not in_memory(pid, NUMBERS), f"a core of {service} would tell a number"
