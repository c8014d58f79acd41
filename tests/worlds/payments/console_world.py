"""Somebody at the console over plain HTTP, and a business with one of everything to look at."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from tests import run_folder
from tests.eventually import becomes, eventually
from tests.worlds.payments.repair_world import approved, millrace, opened, proposed
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["public"]  # the fixture of here and there

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
_FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


class Visitor:
    """A browser without scripts: cookies are kept, redirects are followed when asked, forms carry their token."""

    def __init__(self, public: PublicSystem) -> None:
        self.http = httpx.Client(base_url=public.base_url, timeout=40, trust_env=False)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.http.get(path, **options)

    def form_token(self, path: str) -> str:
        found = _FORM_TOKEN.search(self.get(path).text)
        assert found, path
        return found[1]

    def post(self, path: str, page: str = "/console/sign-in", **fields: str) -> httpx.Response:
        """A form of ``page``, sent."""
        return self.http.post(path, data={"form_token": self.form_token(page)} | fields)

    def sign_in(self, token: str) -> httpx.Response:
        return self.post("/console/sign-in", token=token)


Visitors = Callable[..., Visitor]


@pytest.fixture
def visitors(public: PublicSystem) -> Iterator[Visitors]:
    """Makes visitors: strangers without a name, else signed in."""
    made: list[Visitor] = []

    def make(name: str | None = None, scope: str = "operator", **changes: Any) -> Visitor:
        visitor = Visitor(public)
        made.append(visitor)
        if name is not None:
            answer = visitor.sign_in(public.token(name, (scope,), **changes))
            assert (answer.status_code, answer.headers["location"]) == (303, "/console"), answer.text
        return visitor

    yield make
    for visitor in made:
        visitor.http.close()


@dataclass(frozen=True)
class Scene:
    """Ids of what was made."""

    merchant: str
    payment: str
    key: str
    request: str
    refund: str
    dispute: str
    short: str  # a payment that was settled short
    case: str
    repair: str  # proposed by ann, for the case
    posted: str  # a repair that was posted


def _paid(merchant: Merchant, amount: int, **payload: Any) -> str:
    made = str(merchant.create(amount=amount, **payload).json()["result"]["id"])
    assert merchant.act(made, "confirm").status_code == 200
    becomes(lambda: merchant.fresh(f"/v1/payment_intents/{made}").json()["state"], "succeeded", 60)
    return made


def _one_of_everything(public: PublicSystem) -> Scene:
    merchant = public.merchant()
    key = f"order {uuid.uuid4().hex}"
    made = merchant.create(key, amount=123_456, metadata={"note": HOSTILE})
    payment = made.json()["result"]["id"]
    assert merchant.act(payment, "confirm").status_code == 200
    becomes(lambda: merchant.fresh(f"/v1/payment_intents/{payment}").json()["state"], "succeeded", 60)
    _paid(merchant, 5_000, currency="JPY")
    body = {"idempotency_key": uuid.uuid4().hex, "payload": {"payment_intent": payment, "amount": 400}}
    refund = merchant.http.post("/v1/refunds", json=body).json()["result"]["id"]
    becomes(lambda: merchant.fresh(f"/v1/refunds/{refund}").json()["state"], "succeeded", 60)
    processor = httpx.Client(base_url=public.settings.addresses().processor_url, timeout=30, trust_env=False)
    with processor:
        processor.post("/disputes", json={"reference": payment, "amount": 5_000}).raise_for_status()
        disputes = eventually(
            lambda: merchant.fresh(f"/v1/disputes?payment_intent={payment}").json()["data"], 60, what="a dispute"
        )
        with run_folder.locked("settlements"):  # a report takes all that is unsettled, of other processes' scenes too
            short = _paid(merchant, 2_000)
            faults = [{"kind": "short", "reference": short, "amount": 7}]
            processor.post("/settlements", json={"faults": faults}).raise_for_status()
    assert millrace(public, "reconcile", "--json").returncode == 0
    ann, bob = (public.merchant(name, ("operator",)) for name in ("m_ann", "m_bob"))
    with ann.http, bob.http:
        posted = approved(bob, proposed(ann, opened(public, currency="USD", amount=700))["id"])["id"]
        case = opened(public, currency="USD", amount=700, seen=HOSTILE)
        repair = proposed(ann, case)["id"]
    merchant.http.close()
    return Scene(
        merchant=merchant.name,
        payment=payment,
        key=key,
        request=made.headers["x-request-id"],
        refund=refund,
        dispute=disputes[0]["id"],
        short=short,
        case=case,
        repair=repair,
        posted=posted,
    )


def parked_payment(public: PublicSystem, merchant: Merchant) -> str:
    """A payment whose confirm failed for a reason that is gone since: it refuses everything until somebody decides."""
    payment = str(merchant.create(amount=777).json()["result"]["id"])
    poison = f"poison_{payment}"
    with psycopg.connect(public.settings.addresses().postgres_superuser_dsn, autocommit=True) as superuser:
        superuser.execute(f"alter table payment_intent add constraint {poison} check (id <> '{payment}') not valid")
        try:
            merchant.act(payment, "confirm")
            eventually(lambda: public.rows("select 1 from dead_letter where aggregate_key = %s", payment), 60)
        finally:
            superuser.execute(f"alter table payment_intent drop constraint {poison}")
    assert merchant.act(payment, "confirm").json()["code"] == "parked"
    return payment


def posted_at_last(public: PublicSystem, approver: Visitor, repair_id: str) -> None:
    """Whatever an owner needs on a busy machine: while the repair is only approved, its approver presses again."""
    page = f"/console/repairs/{repair_id}"

    def state() -> str:
        with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
            query = "select state from repair_proposal where id = %s"
            ((found,),) = connection.execute(query, (repair_id,)).fetchall()
        if found == "approved":
            approver.post(f"{page}/approve", page=page)
        return str(found)

    becomes(state, "posted", 60)


def parked_at(public: PublicSystem, payment: str) -> str:
    """The way to the form of its decision."""
    ((place,),) = public.rows(
        """select topic || '/' || partition || '/' || "offset" from dead_letter where aggregate_key = %s""", payment
    )
    return f"/console/queues/parked/{place}"


_scenes: list[Scene] = []


@pytest.fixture
def scene(public: PublicSystem) -> Scene:
    """Made once for a pytest process; tests leave it as it is."""
    if not _scenes:
        _scenes.append(_one_of_everything(public))
    return _scenes[0]


@pytest.fixture
def ann(visitors: Visitors) -> Visitor:
    """An operator: the author of the scene's repair."""
    return visitors("m_ann")
