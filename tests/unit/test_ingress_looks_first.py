"""A prior result is looked up before a command is sent only where that spares something; else its owner tells it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ingress.commands import envelope
from ingress.commands.admission import Admission, Admissions
from ingress.commands.commands import Commands, Terms
from ingress.commands.disk_room import DiskRoom
from ingress.commands.pending import Call
from ingress.commands.stored import Stored
from ingress.identity.caller import Caller
from schemas import errors

CALLER = Caller(principal="m_1", subject="s", scopes=frozenset({"payments:write"}), expires_at=0)
BODY = b'{"result":{"id":"pi_1","version":1},"event":{}}'
CREATE = {"operation": "POST /v1/payment_intents", "idempotency_key": "k", "payload": {"amount": 5, "currency": "GBP"}}


class Refusing(Admission):
    async def refusals(self, caller: Caller, requests: Any) -> list[errors.PlatformError | None]:
        return [errors.Maintenance() for _ in requests]


class Gathering(Admission):
    def gathers(self, requests: Any) -> bool:
        return True


class Edge:
    """The exchange, the stored results, the notes and the evidence of one process, in memory."""

    def __init__(self, *, stored: bytes | None = None, is_silent: bool = False, admission: Admission | None = None):
        self.is_silent = is_silent
        self.is_decided_first = False
        self.asked = self.sent = self.kept = 0
        self._stored = stored
        admissions = Admissions({"payments": admission or Admission()}, DiskRoom(None))
        self.commands = Commands(
            self, self, SimpleNamespace(remember_all=self._none, remember=self._none), self, admissions
        )  # type: ignore[arg-type]

    async def _none(self, *_: Any) -> None:
        pass

    async def find(self, _: Any) -> Stored | None:
        return (await self.find_all([_]))[0]

    async def find_all(self, identities: Any) -> list[Stored | None]:
        self.asked += len(identities)
        found = None if self._stored is None else Stored(self._stored, BODY, "committed", 0, 0)
        return [found] * len(identities)

    async def keep(self, *_: Any) -> None:
        self.kept += 1

    async def carry_out(self, commands: Any, _: float, *, only_acknowledged: bool, bulk: bool) -> Any:
        call = Call(commands, asyncio.get_running_loop().create_future(), only_acknowledged=only_acknowledged)
        for pending in call.pendings:
            self.sent += 1
            if not self.is_decided_first:
                pending.acknowledged(0, 1)
            if self.is_decided_first or not only_acknowledged:
                pending.decided("committed", BODY, replayed=False)
        return call.pendings


def _one(edge: Edge, *, respond_async: bool = False, proof: Any = None) -> Any:
    request = envelope.read_line(msgspec.json.encode(CREATE), CALLER.principal)
    terms = Terms(wait_s=1, respond_async=respond_async, deadline_ms=None, trace_id="t")
    return asyncio.run(edge.commands.one(CALLER, request, terms, proof))[0]


def _many(edge: Edge, count: int = 3) -> Any:
    lines = [msgspec.json.encode(CREATE | {"idempotency_key": f"k{n}"}) for n in range(count)]
    terms = Terms(wait_s=1, respond_async=False, deadline_ms=None, trace_id="t")
    return asyncio.run(edge.commands.many(CALLER, lines, terms))


def _hash() -> bytes:
    return envelope.read_line(msgspec.json.encode(CREATE), CALLER.principal).request_hash


def test_a_new_command_asks_the_database_nothing() -> None:
    edge = Edge()
    assert (_one(edge).status, edge.asked, edge.sent) == (201, 0, 1)
    assert ([answer.status for answer in _many(edge)], edge.asked, edge.sent) == ([201] * 3, 0, 4)


@pytest.mark.parametrize(
    ("edge", "call"),
    [
        (lambda: Edge(is_silent=True), {}),
        (Edge, {"respond_async": True}),
        (Edge, {"proof": object()}),
        (lambda: Edge(admission=Gathering()), {}),
    ],
    ids=["silent", "async", "signed", "gathers"],
)
def test_it_is_looked_up_first_where_that_spares_something(edge: Any, call: dict[str, Any]) -> None:
    fresh = edge()
    assert (_one(fresh, **call).replayed, fresh.asked, fresh.sent) == (False, 1, 1)
    known = edge()
    known._stored = _hash()
    assert (_one(known, **call).replayed, known.sent, known.kept) == (True, 0, 0)


def test_who_does_not_want_to_wait_hears_the_decision_where_no_acknowledgement_has_come() -> None:
    """The command is in Kafka then, nobody knows where; who asks for a command of a parked object needs the place."""
    edge = Edge()
    assert _one(edge, respond_async=True).status == 202
    edge.is_decided_first = True
    assert (_one(edge, respond_async=True).status, _one(edge).status) == (201, 201)


def test_a_stored_result_is_told_whatever_is_admitted_now() -> None:
    with pytest.raises(errors.Maintenance):
        _one(Edge(admission=Refusing()))
    assert _one(Edge(admission=Refusing(), stored=_hash())).replayed
    edge = Edge(admission=Refusing(), stored=b"another")
    assert [answer.code for answer in _many(edge)] == ["key_reused"] * 3
    assert [answer.code for answer in _many(Edge(admission=Refusing()))] == ["maintenance"] * 3
    assert edge.sent == 0
