"""The parser of signatures: whatever is sent, it reads one thing or refuses; and what is signed verifies, unless it changed."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from schemas import errors
from schemas.crypto import content_digest, http_signature
from schemas.crypto.http_signature import Message

KEY = Ed25519PrivateKey.generate()
#: pieces that Signature-Input is made of, in any order
PIECES = ("a", "b", "=", "(", ")", '"', '"@method"', '"@path"', '"date"', ";created=1", ";keyid=", ";tag=", ":", "AA==",
          ",", ";", " ", "?1", "@1", "1.5", '%"', "\\", "\x00", "\u00e9", "*", "-")  # fmt: skip
texts = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
visible = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)
names = st.lists(st.sampled_from((*http_signature.DERIVED, "date", "idempotency-key")), unique=True)


@given(signature_input=texts, signature=texts, digest=texts)
def test_whatever_is_sent_is_read_or_refused(signature_input: str, signature: str, digest: str) -> None:
    fields = {"signature-input": signature_input, "signature": signature, "date": "x"}
    try:
        found = http_signature.read(Message("POST", "h", "/p", "", fields))
    except errors.SignatureInvalid:
        found = None
    assert found is None or not http_signature.verifies(KEY.public_key(), found.signature, found.base)
    try:
        content_digest.require(digest, b"body")
    except errors.SignatureInvalid:
        return
    raise AssertionError("no text of this size is the digest of the body")


@given(
    covered=names,
    query=visible,
    date=visible,
    nonce=visible,
    created=st.integers(0, 10**14),
    changed=st.sampled_from(("method", "path", "query", "date", "nothing")),
)
def test_what_is_signed_verifies_unless_it_changed(
    covered: list[str], query: str, date: str, nonce: str, created: int, changed: str
) -> None:
    fields = {"date": date, "idempotency-key": "k"}
    whole: dict[str, Any] = {"method": "POST", "authority": "h", "path": "/p", "query": query, "fields": fields}
    params: dict[str, int | str] = {"created": created, "keyid": "k", "nonce": nonce}
    made = http_signature.sign(Message(**whole), covered, params, KEY)
    after = dict(fields)
    if changed == "date":
        after["date"] = f"{date}x"
    elif changed != "nothing":
        whole[changed] += "x"
    after |= {name.lower(): value for name, value in made.items()}
    signed = http_signature.read(Message(**whole | {"fields": after}))
    assert signed is not None
    assert dict(signed.params) == params
    touched = changed if changed == "date" else f"@{changed}"
    assert http_signature.verifies(KEY.public_key(), signed.signature, signed.base) is (touched not in covered)
