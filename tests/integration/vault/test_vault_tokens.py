"""POST /v1/tokens and what follows from it: once for a key, only its merchant's own, gone when deleted."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import re
import socket
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ingress.client.signing import RequestSigner
from ingress.identity.signing_keys import key_id_of
from tests.eventually import eventually
from tests.worlds.payments.signing_world import private_pem
from tests.worlds.payments.vault_world import card, world
from vault import limits

if TYPE_CHECKING:
    from tests.worlds.payments.vault_world import VaultWorld

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
NUMBER = "4242424242424242"


def test_a_card_becomes_a_token(world: VaultWorld) -> None:
    answer = world.holder().tokenize(card("4242 4242-4242 4242"))
    assert answer.status_code == 201
    token = answer.json()["result"]
    assert re.fullmatch(r"tok_[a-z2-7]{24}", token["id"])
    assert answer.headers["location"] == f"/v1/tokens/{token['id']}"
    shown = {k: v for k, v in token.items() if k not in ("id", "fingerprint")}
    assert shown == {"object": "token", "network": "visa", "last4": "4242", "exp_month": 12, "exp_year": 2035}
    assert NUMBER not in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_the_same_key_makes_one_token(world: VaultWorld) -> None:
    """Also in header form, with other separators, another cvc, and by many callers at once; another card is refused."""
    holder, key = world.holder(), uuid.uuid4().hex
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: holder.tokenize(key=key), range(24)))
    assert {a.status_code for a in answers} == {201}
    assert len({a.text for a in answers}) == 1
    assert sum("idempotency-replayed" not in a.headers for a in answers) == 1
    in_header = holder.http.post(
        "/v1/tokens", json=card("4242-4242 42424242", cvc=None), headers={"Idempotency-Key": key}
    )
    assert (in_header.status_code, in_header.text) == (201, answers[0].text)
    for other in (card("4000000000000002"), card(exp_month=11), card(exp_year=2036)):
        refused = holder.tokenize(other, key=key)
        assert (refused.status_code, refused.json()["code"]) == (422, "key_reused")
    stored = world.rows("select count(*) from vault.card where merchant_id = %s", holder.name)
    assert stored == [(1,)]


def test_a_key_is_its_merchants_own(world: VaultWorld) -> None:
    one, two = (world.holder().tokenize(key="k").json()["result"] for _ in range(2))
    assert one["id"] != two["id"]


def test_the_fingerprint_is_the_cards_within_a_merchant(world: VaultWorld) -> None:
    holder = world.holder()
    first, second = (holder.tokenize(card(exp_year=y)).json()["result"] for y in (2035, 2036))
    other = holder.tokenize(card("4000000000000002")).json()["result"]
    elsewhere = world.holder().tokenize().json()["result"]
    assert first["id"] != second["id"]
    assert first["fingerprint"] == second["fingerprint"]
    assert len({first["fingerprint"], other["fingerprint"], elsewhere["fingerprint"]}) == 3


def test_only_its_own_merchant_sees_a_token(world: VaultWorld) -> None:
    """A stranger's answer is, byte for byte, that of a token that never was."""
    holder, stranger = world.holder(), world.holder()
    token = holder.token()
    assert holder.http.get(f"/v1/tokens/{token}").json()["last4"] == "4242"
    none = stranger.http.get(f"/v1/tokens/tok_{'a' * 24}")
    for answer in (stranger.http.get(f"/v1/tokens/{token}"), stranger.http.delete(f"/v1/tokens/{token}")):
        assert (answer.status_code, answer.content) == (404, none.content)
    assert holder.http.get(f"/v1/tokens/{token}").status_code == 200


def test_a_deleted_card_is_shredded(world: VaultWorld) -> None:
    """No key, no ciphertext, no digest is left; deleting again says the same; its key makes no other token."""
    holder = world.holder()
    token = holder.tokenize(key="k").json()["result"]["id"]
    for _ in range(2):
        gone = holder.http.delete(f"/v1/tokens/{token}")
        assert (gone.status_code, gone.json()["result"]) == (200, {"id": token, "object": "token", "deleted": True})
    assert holder.http.get(f"/v1/tokens/{token}").status_code == 404
    assert world.forward(token, holder.name).status_code == 404
    again = holder.tokenize(key="k")
    assert (again.status_code, again.json()["code"]) == (409, "state_conflict")
    (row,) = world.rows(
        "select c.wrapped_key, c.ciphertext, c.fingerprint, c.key_id, r.request_digest"
        " from vault.card c join vault.token_request r on r.token_id = c.id where c.id = %s",
        token,
    )
    assert row == (None,) * 5
    assert world.rows("select id from vault.token_public where id = %s", token) == []


@pytest.mark.parametrize("scopes", [(), ("payments:read",), ("limits:read",)])
def test_writing_needs_its_scope(world: VaultWorld, scopes: tuple[str, ...]) -> None:
    token = world.holder("m_scopes").token()
    holder = world.holder("m_scopes", scopes)
    assert holder.tokenize().status_code == 403
    assert holder.http.delete(f"/v1/tokens/{token}").status_code == 403
    assert holder.http.get(f"/v1/tokens/{token}").status_code == (200 if "payments:read" in scopes else 403)


def test_who_requires_signatures_is_not_heard_without_one(world: VaultWorld) -> None:
    """A stolen token alone stores and shreds no card; the card's digest is not kept, only who signed."""
    holder, private = world.holder(), Ed25519PrivateKey.generate()
    before = holder.token()
    key_id = key_id_of(holder.name, private.public_key().public_bytes_raw())
    world.rows(
        "insert into merchant_signing_key (id, merchant_id, public_key, created_by) values (%s, %s, %s, 'test')",
        *(key_id, holder.name, private.public_key().public_bytes_raw()),
    )
    required = (
        "insert into merchant_signature_requirement (merchant_id, requirement, changed_by) values (%s, %s, 'test')"
    )
    world.rows(required, holder.name, "required")
    eventually(lambda: holder.tokenize().status_code == 401, 60, what="the vault knows of the requirement")
    for refused in (holder.tokenize(), holder.http.delete(f"/v1/tokens/{before}")):
        assert (refused.status_code, refused.json()["code"]) == (401, "signature_required")
    holder.http.auth = RequestSigner("msk_another", private_pem(private), time.time)
    assert holder.tokenize().json()["code"] == "signature_invalid"
    holder.http.auth = RequestSigner(key_id, private_pem(private), time.time)
    made = holder.tokenize()
    assert made.status_code == 201
    assert holder.http.delete(f"/v1/tokens/{made.json()['result']['id']}").status_code == 200
    assert holder.http.get(f"/v1/tokens/{before}").status_code == 200
    rows = world.rows(
        "select action from audit_log where details->>'merchant' = %s and details->>'signed_by' = %s order by seq",
        *(holder.name, key_id),
    )
    assert rows == [("token.create",), ("token.delete",)]
    assert world.rows("select 1 from signed_request where merchant_id = %s", holder.name) == []


def test_nobody_without_a_token_is_heard(world: VaultWorld) -> None:
    body = {"idempotency_key": "k", "payload": card()}
    for headers in (
        {},
        {"Authorization": "Bearer x.y.z"},
        {"Authorization": f"Bearer {world.settings.vault_forward_secret()}"},
    ):
        answer = httpx.post(f"{world.url}/v1/tokens", json=body, headers=headers, timeout=20, trust_env=False)
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


WRONG: dict[str, tuple[int, Any]] = {
    "another check digit": (422, {"payload": card("4242424242424241")}),
    "expired": (422, {"payload": card(exp_year=2001)}),
    "a number as a number": (422, {"payload": card() | {"number": int(NUMBER)}}),
    "as a field's name": (422, {"payload": card() | {NUMBER: 1}}),
    "as an envelope's field": (400, {NUMBER: 1}),
    "as an operation": (400, {"operation": NUMBER}),
    "as the payload": (400, {"payload": NUMBER}),
    "as a month": (422, {"payload": card(exp_month=NUMBER)}),
    "as a year": (422, {"payload": card(exp_year=int(NUMBER))}),
    "as a cvc": (422, {"payload": card(cvc=NUMBER)}),
    "as another merchant": (422, {"payload": card(merchant_id=NUMBER)}),
    "as a long key": (422, {"idempotency_key": NUMBER * 20}),
    "as a key that is a number": (400, {"idempotency_key": int(NUMBER)}),
    "without a key": (400, {"idempotency_key": None}),
    "nothing": (422, {"payload": {}}),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_told_without_its_value(world: VaultWorld, name: str) -> None:
    status, change = WRONG[name]
    holder = world.holder()
    answer = holder.http.post("/v1/tokens", json={"idempotency_key": "k", "payload": card()} | change)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert "4242" not in answer.text
    assert world.rows("select count(*) from vault.card where merchant_id = %s", holder.name) == [(0,)]


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (400, b'{"idempotency_key":"k","payload":{"4242424242424242":1,"4242424242424242":2}}', {}),
        (400, b'{"number":"4242424242424242"', {}),
        (400, b'["4242424242424242"]', {}),
        (400, b'{"idempotency_key":"k","payload":{"number":"4242\xff"}}', {}),
        (400, b"[" * 3000, {}),
        (400, b'{"idempotency_key":"k"}', {"Idempotency-Key": "other"}),
        (413, b'{"x":"' + b"4242424242424242" * 300 + b'"}', {}),
        (415, b"number=4242424242424242", {"Content-Type": "application/x-www-form-urlencoded"}),
    ],
)
def test_unreadable_bodies_are_told_without_their_bytes(
    world: VaultWorld, status: int, body: bytes, headers: dict[str, str]
) -> None:
    answer = world.holder().http.post(
        "/v1/tokens", content=body, headers={"Content-Type": "application/json"} | headers
    )
    assert (answer.status_code, "4242" in answer.text) == (status, False)


def test_unknown_routes_and_methods(world: VaultWorld) -> None:
    http = world.holder().http
    assert http.get("/v1/nothing").json()["code"] == "not_found"
    assert (http.put("/v1/tokens").status_code, http.put("/v1/tokens").json()["code"]) == (405, "method_not_allowed")
    assert http.put("/v1/tokens/tok_1").headers["allow"] == "DELETE, GET, HEAD"
    assert http.get("/healthz").status_code == http.get("/readyz").status_code == 200
    assert http.get("/healthz", headers={f"x-{n}": "1" for n in range(80)}).status_code == 431


def test_a_key_that_is_a_card_number_is_not_stored(world: VaultWorld) -> None:
    """A careless caller's idempotency key lies in the database as a keyed digest."""
    assert world.holder().tokenize(key=NUMBER).status_code == 201
    rows = world.rows("select r::text, c::text from vault.token_request r join vault.card c on c.id = r.token_id")
    assert NUMBER not in json.dumps(rows)


def test_a_changed_card_does_not_open(world: VaultWorld) -> None:
    """Another's ciphertext in the row, a changed byte, a cut one: 500, and no word of why."""
    holder = world.holder()
    victim, other = holder.token(), holder.token("4000000000000002")
    changes = {
        "swapped": "update vault.card v set wrapped_key = o.wrapped_key, ciphertext = o.ciphertext"
        " from vault.card o where o.id = %(other)s and v.id = %(victim)s",
        "changed": "update vault.card set ciphertext = set_byte(ciphertext, 30, 255 - get_byte(ciphertext, 30)) where id = %(victim)s",
        "cut": "update vault.card set wrapped_key = substr(wrapped_key, 1, 8) where id = %(victim)s",
    }
    for change in changes.values():
        with psycopg.connect(world.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
            before = connection.execute(
                "select wrapped_key, ciphertext from vault.card where id = %s", [victim]
            ).fetchone()
            assert before is not None
            connection.execute(change, {"victim": victim, "other": other})  # type: ignore[arg-type]
            answer = holder.http.get(f"/v1/tokens/{victim}")
            assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
            assert world.forward(victim, holder.name).status_code == 500
            connection.execute(
                "update vault.card set wrapped_key = %s, ciphertext = %s where id = %s", [*before, victim]
            )
    assert holder.http.get(f"/v1/tokens/{victim}").status_code == 200
    moved = world.rows("update vault.card set merchant_id = 'm_thief' where id = %s returning id", victim)
    assert moved == [(victim,)]
    assert world.holder("m_thief").http.get(f"/v1/tokens/{victim}").status_code == 500


def test_who_hangs_on_leaves_room_for_others(world: VaultWorld) -> None:
    """One merchant's unfinished bodies take that merchant's places, and they are given back when it is gone."""
    greedy, other = world.holder(), world.holder()
    address = httpx.URL(world.url)
    head = f"POST /v1/tokens HTTP/1.1\r\nHost: vault\r\nAuthorization: {greedy.http.headers['authorization']}\r\n"
    unfinished = f"{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{".encode()
    with contextlib.ExitStack() as hanging:
        for _ in range(limits.VAULT_REQUESTS_OF_CALLERS_MAX // 2):
            line = hanging.enter_context(socket.create_connection((address.host, address.port or 80)))
            line.sendall(unfinished)
        eventually(lambda: greedy.tokenize().status_code == 503, what="the merchant has no place left")
        assert greedy.tokenize().json()["code"] == "overloaded"
        assert other.tokenize().status_code == 201
    eventually(lambda: greedy.tokenize().status_code == 201, what="its places are given back")
