"""Routing from outside: a rule is published, payments follow it, and a refusal that it lists goes on elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from dataflows.payments.policies import PolicyBook
from schemas.payments.policies import kinds
from tests.eventually import becomes, eventually
from tests.worlds.payments.console_world import visitors
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflows.payments.domain.policies.in_force import ProcessorHealth
    from tests.worlds.payments.console_world import Visitors
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public", "visitors"]  # the fixtures of this module
pytestmark = pytest.mark.servers

POLICIES = "/v1/routing/policies"
FEES = "/v1/fees/policies"
DECLINED = "insufficient_funds"  # what tok_sim_decline is refused with


@pytest.fixture
def operator(public: PublicSystem) -> Iterator[Merchant]:
    """Somebody who may publish policies."""
    caller = public.merchant(scopes=("operator",))
    yield caller
    caller.http.close()


@pytest.fixture
def other(public: PublicSystem) -> Iterator[Merchant]:
    """The second person."""
    caller = public.merchant(scopes=("operator",))
    yield caller
    caller.http.close()


@pytest.fixture
def publishing(public: PublicSystem) -> Iterator[None]:
    """Nobody else publishes a policy or counts them meanwhile."""
    with public.policies():
        yield


@pytest.fixture
def routed(operator: Merchant, other: Merchant, merchant: Merchant, public: PublicSystem) -> Iterator[Merchant]:
    """A merchant whose charges in euros go to the second processor first, and nobody else's."""
    rule = {
        "name": "EUR of one",
        "when": {"merchant": [merchant.name], "currency": ["EUR"]},
        "candidates": [{"processor": "simulator_b"}, {"processor": "simulator"}],
        "retryable_declines": [DECLINED],
    }

    def in_force() -> bool:
        """Owners have read it."""
        return bool(paid(merchant, "EUR")["processor"] == "simulator_b")

    with public.policies():
        newest = operator.http.get(POLICIES).json()["data"]
        expected = newest[0]["version"] if newest else 0
        document = {"rules": [rule], "expected_version": expected}
        for person, status in ((operator, 202), (operator, 202), (other, 201), (operator, 201)):
            answer = person.http.post(POLICIES, json=document)
            assert answer.status_code == status, answer.text
        assert waiting_of(operator, other, POLICIES) == []
        eventually(in_force)
        yield merchant


def waiting_of(author: Merchant, reader: Merchant, path: str) -> list[dict[str, Any]]:
    """What one has proposed, as another reads it; others leave proposals, too."""
    listed = reader.http.get(f"{path}/proposals").json()["data"]
    return [one for one in listed if one["author"] == author.name]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("bank_rules", {"rules": [{"name": "own", "direction": "out", "text": "salary of ann"}]}),
        ("processor_fees", {"contracts": [{"processor": "acme", "bps": 990}]}),
    ],
)
def test_what_nobody_looks_at_and_what_processors_take_is_said_by_two_persons(
    public: PublicSystem, operator: Merchant, other: Merchant, kind: str, said: dict[str, Any]
) -> None:
    """Else one person publishes a rule that knows an own debit, which then is nobody's case."""
    path = f"/v1/{kind}/policies"
    with public.policies():
        newest = operator.http.get(path).json()["data"]
        expected = newest[0]["version"] if newest else 0
        document = said | {"expected_version": expected}
        for _ in range(2):
            assert operator.http.post(path, json=document).status_code == 202
        in_force = "select coalesce(max(version), 0) from policy_version where kind = %s"
        assert public.rows(in_force, kind) == [(expected,)]
        (waiting,) = waiting_of(operator, other, path)
        assert waiting["expected_version"] == expected
        made = other.http.post(path, json=document)
        assert (made.status_code, made.json()["version"]) == (201, expected + 1)
        nothing = {next(iter(said)): [], "expected_version": expected + 1}
        assert [person.http.post(path, json=nothing).status_code for person in (other, operator)] == [202, 201]


def paid(merchant: Merchant, currency: str, token: str = "tok_sim_approve") -> dict[str, Any]:
    """A payment that was confirmed, as its merchant hears of it once it is over."""
    intent = merchant.create(currency=currency, payment_method=token).json()["result"]
    merchant.act(intent["id"], "confirm")

    def over() -> dict[str, Any] | None:
        found: dict[str, Any] = merchant.http.get(f"/v1/payment_intents/{intent['id']}").json()
        return found if found["state"] != "processing" else None

    found = eventually(over)
    assert found is not None
    return found


def attempts(public: PublicSystem, intent_id: str) -> list[tuple[Any, ...]]:
    return public.rows(
        "select attempt, processor, status, error_code, route from processor_attempt where intent_id = %s order by 1",
        intent_id,
    )


def test_a_rule_sends_charges_where_it_says_and_leaves_others_alone(public: PublicSystem, routed: Merchant) -> None:
    there, here = paid(routed, "EUR"), paid(routed, "USD")
    assert (there["state"], there["processor"]) == ("succeeded", "simulator_b")
    assert (here["state"], here["processor"]) == ("succeeded", "simulator")
    ((_, _, _, _, reason),) = attempts(public, there["id"])
    assert reason.startswith("routing ")
    assert reason.endswith(": EUR of one")


def test_a_refusal_that_the_rule_lists_goes_on_at_the_next_processor(public: PublicSystem, routed: Merchant) -> None:
    """Both refuse this card; each was asked once, under an operation of its own.

    Payments of others share the processors: one that answers these late is out for a minute, and nothing goes on there.
    """

    def refused_by_both() -> list[tuple[Any, ...]] | None:
        found = paid(routed, "EUR", "tok_sim_decline")
        assert (found["state"], found["last_payment_error"]["code"]) == ("requires_payment_method", DECLINED)
        tried = attempts(public, found["id"])
        return tried if len(tried) > 1 else None

    first, second = eventually(refused_by_both, within_s=90)
    assert first[:4] == (1, "simulator_b", "declined", DECLINED)
    assert second[:4] == (2, "simulator", "declined", DECLINED)
    assert second[4].endswith(": EUR of one; failover 1 after simulator_b")
    (other,) = attempts(public, paid(routed, "USD", "tok_sim_decline")["id"])
    assert other[1] == "simulator"


def test_a_processor_that_hangs_is_waited_for(public: PublicSystem, routed: Merchant) -> None:
    """Trap 1: it may have charged. Nobody else is asked, and in the end one of the two books has it, once."""
    with public.frozen("simulator_b"):
        intent = routed.create(currency="EUR").json()["result"]
        routed.act(intent["id"], "confirm")
        becomes(lambda: [row[2] for row in attempts(public, intent["id"])], ["unknown"], within_s=20)

    def over() -> bool:
        return bool(routed.http.get(f"/v1/payment_intents/{intent['id']}").json()["state"] == "succeeded")

    eventually(over, within_s=40)
    assert [row[1:3] for row in attempts(public, intent["id"])] == [("simulator_b", "captured")]
    taken = {
        name: [entry for entry in httpx.get(f"{url}/book", timeout=20, trust_env=False).json()["captured"] if entry["reference"] == intent["id"]]
        for name, url in public.settings.addresses().processor_urls.items()
    }  # fmt: skip
    assert {name: len(entries) for name, entries in taken.items()} == {"simulator": 0, "simulator_b": 1}


def test_a_rule_that_names_an_unknown_processor_is_refused(operator: Merchant) -> None:
    rule = {"name": "r", "candidates": [{"processor": "simulator_z"}]}
    answer = operator.http.post(POLICIES, json={"rules": [rule], "expected_version": 0})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command")
    assert answer.json()["errors"] == [{"field": "rules[0].candidates[0].processor", "reason": "is not configured"}]


@pytest.mark.usefixtures("publishing")
def test_fees_are_of_the_terms_that_a_payment_was_made_under(
    public: PublicSystem, operator: Merchant, other: Merchant, merchant: Merchant, visitors: Visitors
) -> None:
    """The ledger says it, and a publication is for later payments only. A merchant reads its own terms, an operator all."""
    mine = public.merchant()
    terms = {"bps": 1_000, "fixed": {"USD": 7}, "refunds_return": "bps"}
    known_by = (datetime.now(UTC) + timedelta(seconds=6)).isoformat()  # every owner, before it is in force
    document = {"effective_at": known_by, "default": {"bps": 150}, "merchants": {mine.name: terms}}
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute("update policy_version set state = 'retired' where kind = 'fees' and state = 'active'")
        ((version,),) = connection.execute(  # as if it had been published a while ago
            "insert into policy_version (kind, version, body, state, author)"
            " select 'fees', coalesce(max(version), 0) + 1, %s, 'active', 'x' from policy_version where kind = 'fees'"
            " returning version",
            (kinds.canonical("fees", document, ()),),
        )

    def taken() -> list[tuple[int]]:
        return public.rows(
            "select e.credit::int from ledger_entry e join ledger_txn t using (txn_id)"
            " where t.aggregate_key = %s and e.account_id = 'platform_fee_income:USD'",
            paid(mine, "USD")["id"],
        )

    becomes(taken, [(117,)], within_s=60)  # a tenth of 1099, rounded, and 7
    read = mine.http.get("/v1/fee_policy").json()
    assert read == {"object": "fee_policy", "merchant_id": mine.name, "version": version, "upcoming": []} | terms | {
        "effective_at": read["effective_at"]
    }
    of_others = merchant.http.get("/v1/fee_policy").json()
    assert (of_others["bps"], of_others["fixed"]) == (150, {})
    page = visitors("m_ann").get(f"/console/merchants/{mine.name}").text
    assert "10.00 % + 0.07 USD, given back by refunds" in page
    ((all_fees,),) = public.rows(
        "select sum(e.credit)::int from ledger_entry e join ledger_txn t using (txn_id) join payment_intent p"
        " on p.id = t.aggregate_key where p.merchant_id = %s and e.account_id = 'platform_fee_income:USD'",
        mine.name,
    )
    assert f'<span class="amount">{all_fees / 100:.2f}</span> <span class="currency">USD</span>' in page
    soon = datetime.now(UTC)
    later = document | {"expected_version": version, "merchants": {}}
    for moment, status in [(soon, 422), (soon + timedelta(seconds=30), 422), (soon + timedelta(days=1), 202)]:
        answer = operator.http.post(FEES, json=later | {"effective_at": moment.isoformat()})
        assert answer.status_code == status, answer.text
        assert status == 202 or answer.json()["errors"][0]["field"] == "effective_at"
    (waiting,) = waiting_of(operator, other, FEES)
    assert (waiting["expected_version"], waiting["policy"]["merchants"]) == (version, {})
    differs = other.http.post(FEES, json=later | {"effective_at": (soon + timedelta(days=2)).isoformat()})
    assert differs.status_code == 202, "another document is another proposal"
    said = other.http.post(FEES, json=later | {"effective_at": (soon + timedelta(days=1)).isoformat()})
    assert (said.status_code, said.json()["version"]) == (201, version + 1)
    again = operator.http.post(FEES, json=later | {"effective_at": (soon + timedelta(days=1)).isoformat()})
    assert (again.status_code, again.headers["idempotency-replayed"], again.json()["version"]) == (
        201,
        "true",
        version + 1,
    )
    (upcoming,) = mine.http.get("/v1/fee_policy").json()["upcoming"]
    assert (upcoming["version"], upcoming["bps"], upcoming["fixed"]) == (version + 1, 150, {})
    conflict = operator.http.post(FEES, json=document | {"expected_version": version})
    assert (conflict.status_code, conflict.json()["code"]) == (409, "version_conflict")
    book = PolicyBook()
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_owner"], autocommit=True) as connection:
        book.refresh(connection)
        book.refresh(connection)
    assert [published.version for published in book.current.fees][:2] == [version + 1, version]
    assert mine.http.get(FEES).status_code == 403
    mine.http.close()


def test_owners_read_what_workers_tell_of_processors(public: PublicSystem, routed: Merchant) -> None:
    paid(routed, "USD")
    book = PolicyBook()
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_owner"], autocommit=True) as connection:

        def seen() -> ProcessorHealth | None:
            book.refresh(connection)
            health = book.current.health.get("simulator")
            return health if health and health.succeeded else None

        assert eventually(seen).breaker == "closed"
    assert book.current.routing.rules[0].name == "EUR of one"


def test_operators_see_every_processor_and_how_it_is(
    public: PublicSystem, operator: Merchant, routed: Merchant
) -> None:
    def told() -> list[dict[str, Any]] | None:
        answer = operator.http.get("/v1/processors")
        assert answer.status_code == 200, answer.text
        data: list[dict[str, Any]] = answer.json()["data"]
        return data if all(p["health"] and p["health"]["succeeded"] for p in data) else None

    paid(routed, "USD")
    data = eventually(told)
    assert data is not None
    assert [(p["name"], p["adapter"]) for p in data] == [("simulator", "simulator"), ("simulator_b", "simulator")]
    assert all(p["health"]["breaker"] == "closed" for p in data)
    assert 9_990 <= sum(p["share_bps"] for p in data) <= 10_000
    merchant = routed.http.get("/v1/processors")
    assert (merchant.status_code, merchant.json()["code"]) == (403, "forbidden")
