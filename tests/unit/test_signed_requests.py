"""Which signatures are believed: coverage, time, key; and that nobody who does not sign waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.requests import Request

from ingress import limits as ingress_limits
from ingress.identity.known_keys import KnownKeys
from ingress.identity.signed_requests import Proof, SignedRequests
from ingress.identity.signing_keys import _public_key
from schemas import errors, limits
from schemas.crypto import content_digest, http_signature
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY = Ed25519PrivateKey.generate()
NOW = 1_800_000_000
BODY = b'{"payload":{}}'
WHOLE = ("@method", "@path", "@query", "content-digest", "idempotency-key", "if-match")


class Rows:
    """Answers ``signing_keys_of`` from a dictionary, and counts the questions."""

    def __init__(self, requirement: str = "optional", **keys: Ed25519PrivateKey) -> None:
        self.requirement, self.keys, self.asked = requirement, keys, 0
        self.time_s = 0.0

    async def rows(self, query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        assert query == "signing_keys_of"
        self.asked += 1
        keys = [(k, v.public_key().public_bytes_raw()) for k, v in self.keys.items()] or [(None, None)]
        return [(n, self.requirement, *key) for n in parameters["ns"] for key in keys]

    def known(self) -> KnownKeys:
        return KnownKeys(self, lambda: self.time_s)  # type: ignore[arg-type] # the one method that is used


def request(fields: Mapping[str, str], query: str = "a=b") -> Request:
    return Request(
        {
            "type": "http",
            "method": "POST",
            "path": "/v1/x",
            "raw_path": b"/v1/x",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in fields.items()],
        }
    )


def signed(
    covered: Sequence[str] = WHOLE, query: str = "a=b", added: Mapping[str, str] | None = None, **params: Any
) -> Request:
    fields = {"host": "h", "idempotency-key": "k", "if-match": '"3"', "content-digest": content_digest.of(BODY)}
    fields |= added or {}
    message = http_signature.Message("POST", "h", "/v1/x", query, fields)
    given = {"created": NOW, "keyid": "msk_1"} | params
    kept = {name: value for name, value in given.items() if value is not None}
    return request(fields | http_signature.sign(message, covered, kept, KEY), query)


def proved(asked: Request, rows: Rows, body: bytes = BODY) -> Proof | None:
    gate = SignedRequests(rows.known(), rows, lambda: NOW)  # type: ignore[arg-type]
    return asyncio.run(gate.proof(asked, "m_1", body))


def test_who_signed_everything_is_believed() -> None:
    found = proved(signed(), Rows("required", msk_1=KEY))
    assert found is not None
    assert (found.key_id, found.body) == ("msk_1", BODY)
    assert http_signature.verifies(KEY.public_key(), found.signature, found.base)


@pytest.mark.parametrize("left_out", WHOLE)
def test_what_makes_the_call_what_it_is_has_to_be_covered(left_out: str) -> None:
    covered = [name for name in WHOLE if name != left_out]
    with pytest.raises(errors.SignatureInvalid, match=left_out):
        proved(signed(covered), Rows(msk_1=KEY))


def test_what_is_not_there_need_not_be_covered() -> None:
    message = http_signature.Message("POST", "h", "/v1/x", "", {"host": "h"})
    fields = http_signature.sign(message, ("@method", "@path"), {"created": NOW, "keyid": "msk_1"}, KEY)
    assert proved(request({"host": "h"} | fields, ""), Rows(msk_1=KEY), b"") is not None


@pytest.mark.parametrize("secret", ["authorization", "cookie", "x-anything"])
def test_what_is_kept_holds_no_secret(secret: str) -> None:
    with pytest.raises(errors.SignatureInvalid, match="kept"):
        proved(signed((*WHOLE, secret), added={secret: "Bearer x"}), Rows(msk_1=KEY))


@pytest.mark.parametrize(
    ("query", "params"),
    [("n=4242424242424242", {}), ("a=b", {"nonce": "4242424242424242"}), ("a=b", {"x": "4242 4242 4242 4242"})],
)
def test_what_is_kept_holds_no_card_number(query: str, params: dict[str, Any]) -> None:
    with pytest.raises(errors.SignatureInvalid, match="card number"):
        proved(signed(query=query, **params), Rows(msk_1=KEY))


@each(
    ("params", "error"),
    [
        ({"created": NOW - ingress_limits.SIGNATURE_AGE_MAX_S}, None),
        ({"created": NOW - ingress_limits.SIGNATURE_AGE_MAX_S - 1}, errors.SignatureExpired),
        ({"created": NOW + limits.CLOCK_SKEW_MAX_S}, None),
        ({"created": NOW + limits.CLOCK_SKEW_MAX_S + 1}, errors.SignatureExpired),
        ({"expires": NOW}, errors.SignatureExpired),
        ({"expires": NOW + 1}, None),
        ({"created": None}, errors.SignatureInvalid),
        ({"keyid": None}, errors.SignatureInvalid),
        ({"keyid": "msk_2"}, errors.SignatureInvalid),
        ({"alg": "hmac-sha256"}, errors.SignatureInvalid),
        ({"alg": "ed25519"}, None),
    ],
)
def test_time_and_key_of_a_signature(params: dict[str, Any], error: type[errors.Rejected] | None) -> None:
    asked, rows = signed(**params), Rows(msk_1=KEY)
    if error is None:
        assert proved(asked, rows) is not None
    else:
        with pytest.raises(error):
            proved(asked, rows)


def test_another_body_or_another_key_is_refused() -> None:
    with pytest.raises(errors.SignatureInvalid, match="not of this body"):
        proved(signed(), Rows(msk_1=KEY), BODY + b" ")
    with pytest.raises(errors.SignatureInvalid):
        proved(signed(), Rows(msk_1=Ed25519PrivateKey.generate()))


@pytest.mark.parametrize(
    ("requirement", "is_signed", "answer"),
    [
        ("off", True, "nothing"),
        ("off", False, "nothing"),
        ("optional", False, "nothing"),
        ("optional", True, "proof"),
        ("required", True, "proof"),
        ("required", False, "refused"),
    ],
)
def test_what_a_merchant_requires(requirement: str, is_signed: bool, answer: str) -> None:
    asked, rows = signed() if is_signed else request({"host": "h"}), Rows(requirement, msk_1=KEY)
    if answer == "refused":
        with pytest.raises(errors.SignatureRequired):
            proved(asked, rows)
    else:
        assert (proved(asked, rows) is not None) is (answer == "proof")


def test_a_signature_for_somebody_else_is_no_signature_for_us() -> None:
    asked = signed(tag="web-bot-auth")
    assert proved(asked, Rows(msk_1=KEY)) is None
    with pytest.raises(errors.SignatureRequired):
        proved(asked, Rows("required", msk_1=KEY))


def test_an_unsigned_caller_costs_one_question_in_a_while() -> None:
    rows = Rows()

    async def calls() -> None:
        gate = SignedRequests(rows.known(), rows, lambda: NOW)  # type: ignore[arg-type]
        for _ in range(100):
            assert await gate.proof(request({"host": "h"}), "m_1", b"") is None

    asyncio.run(calls())
    assert rows.asked == 1


def test_a_revoked_key_is_forgotten_in_time_and_a_new_one_is_found_at_once() -> None:
    rows = Rows(msk_1=KEY)
    known = rows.known()

    async def steps() -> None:
        assert await known.key("m_1", "msk_1") is not None
        del rows.keys["msk_1"]
        rows.time_s = ingress_limits.SIGNING_KEYS_CACHED_S - 0.001
        assert await known.key("m_1", "msk_1") is not None
        rows.time_s = ingress_limits.SIGNING_KEYS_CACHED_S
        assert await known.key("m_1", "msk_1") is None
        rows.keys["msk_2"] = KEY
        rows.time_s += ingress_limits.SIGNING_KEYS_RELOAD_S
        assert await known.key("m_1", "msk_2") is not None
        asked = rows.asked
        for _ in range(50):  # whoever tries keys asks the database once a second at most
            assert await known.key("m_1", "msk_3") is None
        assert rows.asked == asked

    asyncio.run(steps())


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingress_limits, "SIGNING_KEYS_CACHED_MAX", 3)
    rows = Rows()
    known = rows.known()

    async def steps() -> None:
        for n in range(5):
            await known.of(f"m_{n}")
        await known.of("m_4")
        assert rows.asked == 5
        await known.of("m_0")
        assert rows.asked == 6

    asyncio.run(steps())


def point(text: str) -> str:
    """A point of the curve as a public key in PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415

    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.mark.parametrize(
    "text",
    [
        "00" * 32,
        "00" * 31 + "80",
        "01" + "00" * 31,
        "ec" + "ff" * 30 + "7f",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    ],
)
def test_a_key_that_anybody_can_sign_for_is_none(text: str) -> None:
    """Points of small order: under them one signature fits many messages."""
    assert "small order" in str(_public_key(point(text)))


def test_a_request_is_one_evidence_however_often_it_is_sent() -> None:
    first, again = proved(signed(), Rows(msk_1=KEY)), proved(signed(), Rows(msk_1=KEY))
    other = proved(signed(nonce="x"), Rows(msk_1=KEY))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.id == again.id != other.id


def test_two_lines_of_one_field_are_one_value() -> None:
    """As the RFC joins them, so that a proxy that does it too changes nothing."""
    asked = signed((*WHOLE, "prefer"), added={"prefer": "wait=1, respond-async"})
    lines = [pair for pair in asked.scope["headers"] if pair[0] != b"prefer"]
    asked.scope["headers"] = [*lines, (b"prefer", b"wait=1"), (b"prefer", b" respond-async")]
    assert proved(asked, Rows(msk_1=KEY)) is not None
    assert httpx.Headers(asked.headers.raw)["prefer"] == "wait=1,  respond-async"
