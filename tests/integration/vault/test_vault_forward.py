"""POST /v1/forward: the card goes to the processor that is configured, and to nobody else, and never comes back."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from schemas.payments import limits as payments_limits
from tests.each import each
from tests.eventually import patient
from tests.worlds.payments.vault_world import processor, world
from vault import limits as vault_limits

if TYPE_CHECKING:
    from tests.worlds.payments.vault_world import Processor, VaultWorld

__all__ = ["processor", "world"]  # the fixtures of this module
pytestmark = [pytest.mark.servers]
NUMBER = "4242424242424242"


def test_the_card_takes_the_tokens_place(world: VaultWorld, processor: Processor) -> None:
    """The processor gets path, body and identity as the worker gave them, and a card; the worker gets its answer."""
    holder = world.holder()
    token = holder.token()
    processor.status, processor.answer = 422, lambda _: b'{"code":"declined", "amount": 9007199254740991}'
    processor.headers |= {"Idempotency-Replayed": "true", "Set-Cookie": "a=b"}
    body = {"kind": "purchase", "amount": 9007199254740991, "payment_method": token, "nested": {"é": [1, None]}}
    sent = {"Idempotency-Key": "op_1", "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01", "Cookie": "c=d"}
    answer = world.forward(token, holder.name, body=body, headers=sent)
    assert (answer.status_code, answer.content) == (422, b'{"code":"declined", "amount": 9007199254740991}')
    assert answer.headers["x-vault-answer"] == "processor"
    assert answer.headers["idempotency-replayed"] == "true"
    assert "set-cookie" not in answer.headers
    ((path, headers, raw),) = processor.received
    assert path == "/v1/operations"
    del body["payment_method"]
    assert json.loads(raw) == body | {"card": {"number": NUMBER, "exp_month": 12, "exp_year": 2035}}
    assert (headers["idempotency-key"], headers["traceparent"]) == (sent["Idempotency-Key"], sent["traceparent"])
    assert not {"authorization", "cookie"} & headers.keys()


def test_every_send_of_an_operation_has_the_same_bytes(world: VaultWorld, processor: Processor) -> None:
    """A processor compares the body under an identity: a retry through any vault must not differ."""
    holder = world.holder()
    token = holder.token()
    for _ in range(3):
        assert world.forward(token, holder.name, headers={"Idempotency-Key": "op"}).status_code == 200
    assert len({raw for _, _, raw in processor.received}) == 1


GUESSES = [
    "",
    "Bearer",
    "Bearer wrong",
    "Basic {secret}",
    "{secret}",
    "bearer {secret}",
    "Bearer  {secret}",
    "Bearer {secret}x",
]


@each("authorization", GUESSES)
def test_only_a_worker_may_forward(world: VaultWorld, processor: Processor, authorization: str) -> None:
    """Neither a guess, nor the secret in another form, nor a merchant's own token."""
    holder = world.holder()
    token = holder.token()
    said = authorization.format(secret=world.settings.vault_forward_secret())
    for value in (said, holder.http.headers["authorization"]):
        answer = world.forward(token, holder.name, headers={"Authorization": value})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert processor.received == []


def test_a_foreign_unknown_or_misshapen_token_is_a_404(world: VaultWorld, processor: Processor) -> None:
    holder, stranger = world.holder(), world.holder()
    token = holder.token()
    cases = [
        (token, stranger.name),
        (f"tok_{'a' * 24}", holder.name),
        ("tok_sim_approve", holder.name),
        ("", ""),
        (token, ""),
    ]
    answers = [world.forward(t, m) for t, m in cases]
    assert {(a.status_code, a.content) for a in answers} == {(404, answers[0].content)}
    assert all("x-vault-answer" not in a.headers for a in answers)
    assert processor.received == []


BAD_PATHS = [
    "", "v1/operations", "//evil.example/x", "http://evil.example/", "/v1/../admin", "/..", "/.", "/v1/./x", "/v1//x", "/v1/", "/v1/%2e%2e/x",
    "/v1\\x", "/v1/x?y=1", "/v1/x#y", "/v1/x y", "/v1/x\r\nHost: evil", "/v1/@evil.example", "/é", "/" + "a" * 300, "/.../x", "\t/v1", "/v1/x\n",
]  # fmt: skip


@each("path", BAD_PATHS)
def test_no_path_leads_elsewhere(world: VaultWorld, processor: Processor, path: str) -> None:
    holder = world.holder()
    answer = world.forward(holder.token(), holder.name, path=path)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command")
    assert processor.received == []


@each(
    ("status", "change"),
    [
        (422, {"processor": "evil.example"}),
        (422, {"body": {"payment_method": "tok_other"}}),
        (422, {"body": {"card": {"number": "1"}}}),
        (400, {"body": []}),
        (400, {"url": "http://evil.example"}),
        (400, {"token": 1}),
        (400, {"merchant_id": None}),
    ],
)
def test_bad_calls_are_not_sent(world: VaultWorld, processor: Processor, status: int, change: dict[str, Any]) -> None:
    holder = world.holder()
    whose = {"token": holder.token(), "merchant": holder.name} | change
    whose["merchant"] = whose.pop("merchant_id", whose["merchant"])
    assert world.forward(**whose).status_code == status
    assert processor.received == []


def test_redirects_are_not_followed(world: VaultWorld, processor: Processor) -> None:
    """A processor cannot make the vault send the card elsewhere, not even to itself."""
    holder = world.holder()
    processor.status = 307
    processor.headers |= {"Location": f"{world.settings.addresses().processor_url}/elsewhere"}
    answer = world.forward(holder.token(), holder.name)
    assert (answer.status_code, len(processor.received)) == (307, 1)
    assert "location" not in answer.headers


ECHOES = {
    "whole": lambda body: body,
    "in a text": lambda _: json.dumps({"message": f"card {NUMBER} is unknown"}).encode(),
    "with blanks": lambda _: b'{"n":"4242 4242 4242 4242"}',
    "as a number": lambda _: b'{"n":4242424242424242}',
    "as a name": lambda _: b'{"4242424242424242":1}',
    "escaped": lambda _: ('{"n":"' + "".join(f"\\u00{ord(d):x}" for d in NUMBER) + '"}').encode(),
    "base64": lambda _: json.dumps({"n": base64.b64encode(b"card=" + NUMBER.encode() + b";").decode()}).encode(),
    "no JSON": lambda _: b"<error>4242-4242-4242-4242</error>",
}


@each("name", ECHOES)
def test_an_echoed_number_is_taken_out(world: VaultWorld, processor: Processor, name: str) -> None:
    """Whatever the processor's writing of it; what JSON was stays JSON."""
    holder = world.holder()
    token = holder.token()
    processor.answer = ECHOES[name]
    processor.headers |= {"Retry-After": NUMBER}
    answer = world.forward(token, holder.name)
    assert answer.status_code == 200
    digits = "".join(c for c in answer.text if c.isdigit())
    assert NUMBER not in digits
    assert base64.b64encode(NUMBER.encode()).decode()[3:18] not in answer.text
    assert "retry-after" not in answer.headers
    if name != "no JSON":
        json.loads(answer.content)


def test_a_processor_that_is_away_got_nothing(world: VaultWorld) -> None:
    """Nobody listens: 503, so the worker knows that the operation was not sent."""
    holder = world.holder()
    answer = world.forward(holder.token(), holder.name)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert "nothing was sent" in answer.json()["detail"]


def test_a_lost_or_endless_answer_is_an_unknown_outcome(world: VaultWorld, processor: Processor) -> None:
    """No answer within the bound, and one that is too large: 502, so the worker asks the processor what became of it."""
    holder = world.holder()
    token = holder.token()
    processor.answer = lambda _: b"x" * (vault_limits.VAULT_ANSWER_BYTES_MAX + 1)
    large = world.forward(token, holder.name)
    processor.answer = lambda _: None
    silent = world.forward(token, holder.name)
    for answer in (large, silent):
        assert (answer.status_code, answer.json()["code"]) == (502, "outcome_unknown")
    assert vault_limits.VAULT_FORWARD_TIMEOUT_MS < payments_limits.ATTEMPT_CALL_TIMEOUT_MS, (
        "the worker hears it before it gives up"
    )
    assert silent.elapsed.total_seconds() < patient(payments_limits.ATTEMPT_CALL_TIMEOUT_MS / 1_000)


def test_calls_at_once_are_bounded(world: VaultWorld, processor: Processor) -> None:
    """More than the bound hang at the processor: the rest hears 503 at once, with nothing sent; cards stay available."""
    holder = world.holder()
    token = holder.token()
    processor.answer = lambda _: None
    calls = vault_limits.VAULT_FORWARDS_MAX + 40
    body = json.dumps({"token": token, "merchant_id": holder.name, "path": "/v1/x", "body": {}}).encode()
    head = (
        f"POST /v1/forward HTTP/1.1\r\nHost: vault\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"Authorization: Bearer {world.settings.vault_forward_secret()}\r\nConnection: close\r\n\r\n"
    )

    async def call() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.settings.addresses().vault_port)
        writer.write(head.encode() + body)
        text = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        return str(json.loads(text.partition("\r\n\r\n")[2])["code"])

    async def all_calls() -> list[str]:
        return await asyncio.gather(*(call() for _ in range(calls)))

    codes = Counter(asyncio.run(all_calls()))
    assert codes["overloaded"] > 0
    assert codes.keys() <= {"overloaded", "outcome_unknown", "unavailable"}
    assert len(processor.received) <= calls - codes["overloaded"]
    assert holder.http.get(f"/v1/tokens/{token}").status_code == 200


def test_large_calls_are_refused(world: VaultWorld, processor: Processor) -> None:
    holder = world.holder()
    answer = world.forward(holder.token(), holder.name, body={"x": "y" * vault_limits.VAULT_FORWARD_BODY_BYTES_MAX})
    assert answer.status_code == 413
    assert processor.received == []
