"""Ingress processes come and go: nobody who waits is left without a way to its answer."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest

from ingress.client.errors import Undecided
from tests.eventually import becomes, eventually, patient
from tests.worlds.payments.repair_world import ann, approved, bob, decide, millrace, opened, proposed, transactions
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from ingress.client import MillraceClient
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["ann", "bob", "merchant", "public"]  # the fixtures of this module
pytestmark = [pytest.mark.servers, pytest.mark.alone]  # every caller loses its connection


def _replaced(public: PublicSystem, before: list[int]) -> bool:
    now = public.serving()
    return len(now) == len(before) and not set(now) & set(before)


def test_a_drain_answers_who_waits(public: PublicSystem, merchant: Merchant) -> None:
    """SIGTERM: open waits end with 202 and a place to ask, not with a cut line; then the command is found decided."""
    request_id = f"r-{uuid.uuid4().hex}"
    answers: list[httpx.Response] = []

    def wait_long() -> None:
        body = merchant.envelope("k") | {"request_id": request_id}
        answers.append(merchant.http.post("/v1/payment_intents", json=body, headers={"Prefer": "wait=30"}))

    before = public.pids("ingress")
    with public.frozen("owner"):
        thread = threading.Thread(target=wait_long)
        thread.start()
        eventually(lambda: public.in_flight() > 0, 10, what="the command is under way")
        for pid in before:
            os.kill(pid, signal.SIGTERM)
        thread.join(patient(20))
    assert [a.status_code for a in answers] == [202], [a.text for a in answers]
    eventually(lambda: _replaced(public, before), 60, what="new processes serve")

    def decided() -> bool:
        try:
            return bool(merchant.fresh(f"/v1/operations/{request_id}").json()["status"] == "committed")
        except httpx.TransportError:
            return False  # the new processes do not listen yet

    eventually(decided, 60)
    assert merchant.create("k").headers["idempotency-replayed"] == "true"


def test_a_client_gets_its_answer_over_killed_processes(public: PublicSystem) -> None:
    """kill -9 while commands are under way: the client asks again with its identity, every effect happens once."""
    before = public.pids("ingress")
    with public.client() as client:
        made: list[str] = []

        def pay() -> None:
            made.extend(client.create(amount=n + 1, currency="USD").result["id"] for n in range(30))

        threads = [threading.Thread(target=pay) for _ in range(4)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(made) > 10, 30)
        for pid in before:  # one after the other: the port is served all the time
            os.kill(pid, signal.SIGKILL)
            eventually(lambda p=pid: p not in public.serving() and len(public.serving()) == 2, 60)
        for thread in threads:
            thread.join(patient(90))
        assert len(made) == len(set(made)) == 120
        assert {intent["id"] for intent in client.list()} == set(made)
    eventually(lambda: _replaced(public, before), 60)


def created(client: MillraceClient, key: str) -> str:
    """The intent of that key; nobody who serves is not yet an answer."""
    try:
        return str(client.create(amount=1, currency="USD", idempotency_key=key).result["id"])
    except Undecided as error:
        raise AssertionError(str(error)) from error


def test_a_stream_goes_on_over_killed_processes(public: PublicSystem) -> None:
    """The client reconnects with its last event id: no gap and no duplicate."""
    with public.client() as client:
        first = [client.create(amount=n + 1, currency="USD").result["id"] for n in range(10)]
        heard: list[str] = []
        killed: list[int] = []
        for number, streamed in enumerate(client.events("0"), 1):
            heard.append(streamed.event["aggregate_key"])
            if number == 5:
                killed = public.serving()
                for pid in killed:
                    os.kill(pid, signal.SIGKILL)
                first += [eventually(partial(created, client, uuid.uuid4().hex), 60) for _ in range(5)]
            if number == 15:
                break
        assert sorted(heard) == sorted(first)
    eventually(lambda: _replaced(public, killed), 60, what="both are back for whoever comes next")


def test_all_processes_share_one_address(public: PublicSystem) -> None:
    """Connections are spread over the processes: each of them has answered something."""
    with httpx.Client(base_url=public.base_url, trust_env=False, headers={"Connection": "close"}) as http:
        for _ in range(60):
            assert http.get("/healthz").status_code == 200
    assert len(public.pids("ingress")) == 2


def test_an_ingress_that_dies_while_it_approves_loses_nothing(
    public: PublicSystem, ann: Merchant, bob: Merchant
) -> None:
    found = proposed(ann, opened(public))
    with public.frozen("owner"), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: _status_or_none(bob, found["id"]))
        becomes(lambda: ann.http.get(f"/v1/repairs/{found['id']}").json()["state"], "approved", 30)
        killed = set(public.pids("ingress"))
        for pid in killed:
            os.kill(pid, 9)
        waiting.result()
    becomes(lambda: len(set(public.serving()) - killed), 2, 60)
    assert millrace(public, "repair", "resume").returncode == 0
    assert approved(bob, found["id"])["state"] == "posted"
    assert len(transactions(public, found["id"])) == 1


def _status_or_none(caller: Merchant, repair_id: str) -> int | None:
    try:
        return decide(caller, repair_id, "approve").status_code
    except httpx.HTTPError:
        return None
