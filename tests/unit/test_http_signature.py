"""Message signatures: the RFC's own vectors, another implementation, and what is refused. Sources: RFC 9421 appendix B."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import http_sf
import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from http_message_signatures import HTTPMessageSigner, HTTPMessageVerifier, HTTPSignatureKeyResolver
from http_message_signatures.algorithms import ED25519

from ingress.client.signing import RequestSigner
from schemas import errors, limits
from schemas.crypto import content_digest, http_signature
from schemas.crypto.http_signature import Message
from tests.each import each

# B.1.4 and B.1.5
PUBLIC = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=\n-----END PUBLIC KEY-----\n"
PRIVATE = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n-----END PRIVATE KEY-----\n"
SHARED = "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ=="
# B.2
BODY = b'{"hello": "world"}'
FIELDS = {
    "host": "example.com",
    "date": "Tue, 20 Apr 2021 02:07:55 GMT",
    "content-type": "application/json",
    "content-digest": "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:",
    "content-length": "18",
}
COVERED_B26 = ("date", "@method", "@path", "@authority", "content-type", "content-length")
INPUT_B26 = '("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"'
SIGNATURE_B26 = ":wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:"


def public_key() -> Ed25519PublicKey:
    key = serialization.load_pem_public_key(PUBLIC)
    assert isinstance(key, Ed25519PublicKey)
    return key


def private_key() -> Ed25519PrivateKey:
    key = serialization.load_pem_private_key(PRIVATE, None)
    assert isinstance(key, Ed25519PrivateKey)
    return key


def message(signature_input: str | None = None, signature: str | None = None, **changed: Any) -> Message:
    """The request of appendix B.2."""
    fields = FIELDS | ({} if signature_input is None else {"signature-input": signature_input})
    fields |= {} if signature is None else {"signature": signature}
    given: dict[str, Any] = {"method": "POST", "authority": "example.com", "path": "/foo"}
    return Message(**given | {"query": "param=Value&Pet=dog", "fields": fields} | changed)


def test_the_rfcs_ed25519_signature_is_verified() -> None:
    """RFC 9421 B.2.6."""
    signed = http_signature.read(message(f"sig-b26={INPUT_B26}", f"sig-b26={SIGNATURE_B26}"))
    assert signed is not None
    assert signed.params["keyid"] == "test-key-ed25519"
    assert http_signature.verifies(public_key(), signed.signature, signed.base)
    assert not http_signature.verifies(public_key(), signed.signature, signed.base + b" ")


def test_the_rfcs_ed25519_signature_is_made() -> None:
    """RFC 9421 B.2.6: Ed25519 signs alike every time."""
    params: dict[str, int | str] = {"created": 1618884473, "keyid": "test-key-ed25519"}
    made = http_signature.sign(message(), COVERED_B26, params, private_key())
    assert made == {"Signature-Input": f"millrace={INPUT_B26}", "Signature": f"millrace={SIGNATURE_B26}"}


def test_the_rfcs_base_under_another_algorithm() -> None:
    """RFC 9421 B.2.5: the base is the same for all; its HMAC-SHA256 is the RFC's."""
    text = '("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"'
    base = http_signature.base(message(), ("date", "@authority", "content-type"), text)
    digest = hmac.digest(base64.b64decode(SHARED), base, "sha256")
    assert base64.b64encode(digest) == b"pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8="


def test_the_rfcs_request_of_two_lines_of_one_field() -> None:
    """RFC 9421 B.4."""
    text = 'transform=("@method" "@path" "@authority" "accept");created=1618884473;keyid="test-key-ed25519"'
    signature = "transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:"
    fields = {"accept": "application/json, */*", "signature-input": text, "signature": signature}
    signed = http_signature.read(Message("GET", "example.org", "/demo", "name1=Value1&Name2=value2", fields))
    assert signed is not None
    assert http_signature.verifies(public_key(), signed.signature, signed.base)


def test_the_rfcs_digest_is_of_its_body() -> None:
    """RFC 9421 B.2, RFC 9530 appendix B.1."""
    content_digest.require(FIELDS["content-digest"], BODY)
    assert content_digest.of(BODY) == "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"
    with pytest.raises(errors.SignatureInvalid):
        content_digest.require(FIELDS["content-digest"], BODY + b" ")


@each(
    "value",
    [
        "",
        "sha-256",
        "sha-256=1",
        "sha-256=:!:",
        "md5=:X48E9qOokqqrvdts8nOJRA==:",
        f"{content_digest.of(BODY)}, sha-512=:{base64.b64encode(bytes(64)).decode()}:",
        f"{content_digest.of(BODY)}, {content_digest.of(BODY)}",
        "sha-256=:\u00e9:",
    ],
)
def test_a_digest_that_says_less_or_two_things_is_refused(value: str) -> None:
    with pytest.raises(errors.SignatureInvalid):
        content_digest.require(value, BODY)


@each(
    ("signature_input", "signature", "says"),
    [
        (None, "a=:AA==:", "same labels"),
        ('a=("@method")', None, "same labels"),
        ('a=("@method")', "b=:AA==:", "same labels"),
        ('a=("@method"), a=("@method")', "a=:AA==:", "twice"),
        ('a=("@method");created=1;created=2', "a=:AA==:", "twice"),
        ('a=("@method")', "a=:AA==:, a=:AA==:", "twice"),
        ('a=("@method"), b=("@method")', "a=:AA==:, b=:AA==:", "Several"),
        ('a=("@method" "@method")', "a=:AA==:", "twice"),
        ('a=("@Method")', "a=:AA==:", "not supported"),
        ('a=("Date")', "a=:AA==:", "not supported"),
        ('a=("@target-uri")', "a=:AA==:", "not supported"),
        ('a=("@signature-params")', "a=:AA==:", "not supported"),
        ('a=("@query-param";name="x")', "a=:AA==:", "not supported"),
        ('a=("date";sf)', "a=:AA==:", "not supported"),
        ("a=(date)", "a=:AA==:", "not supported"),
        ("a=(1 2)", "a=:AA==:", "not supported"),
        ("a=1", "a=:AA==:", "parentheses"),
        ("a", "a=:AA==:", "parentheses"),
        ('a=("@method")', "a=1", "byte sequence"),
        ('a=("@method")', "a=(:AA==:)", "byte sequence"),
        ('a=("@method");created="1"', "a=:AA==:", "created"),
        ('a=("@method");created=1.0', "a=:AA==:", "created"),
        ('a=("@method");keyid=token', "a=:AA==:", "keyid"),
        ('a=("@method");expires=?1', "a=:AA==:", "expires"),
        ('a=("x-absent")', "a=:AA==:", "does not have"),
        ('a=("@method"', "a=:AA==:", "dictionary"),
        ('a=("@method")\u00e9', "a=:AA==:", "dictionary"),
        (f"a=({' '.join(chr(34) + f'h{n}' + chr(34) for n in range(40))})", "a=:AA==:", "at most"),
        (
            ", ".join(f'l{n}=("@method");tag="x"' for n in range(5)),
            ", ".join(f"l{n}=:AA==:" for n in range(5)),
            "at most",
        ),
        ("a" * 10_000, "a=:AA==:", "longer"),
        ('a=("@method")', f"a=:{'A' * 10_000}:", "longer"),
    ],
)
def test_what_has_no_one_reading_is_refused(signature_input: str | None, signature: str | None, says: str) -> None:
    with pytest.raises(errors.SignatureInvalid, match=says):
        http_signature.read(message(signature_input, signature))


def test_what_is_signed_for_somebody_else_is_passed_over() -> None:
    agents = 'proxy=("@authority" "@query-param";name="x");tag="web-bot-auth"'
    assert http_signature.read(message(agents, "proxy=:AA==:")) is None
    both = http_signature.read(message(f"{agents}, s={INPUT_B26}", f"proxy=:AA==:, s={SIGNATURE_B26}"))
    assert both is not None
    assert both.label == "s"
    assert http_signature.read(message()) is None


def test_a_field_that_would_end_the_line_is_refused() -> None:
    """Else a field could claim to be another component."""
    fields = FIELDS | {"date": 'x\n"@method": GET'}
    with pytest.raises(errors.SignatureInvalid, match="line break"):
        http_signature.base(message(fields=fields), ("date",), "()")


class _Keys(HTTPSignatureKeyResolver):  # type: ignore[misc] # untyped
    def resolve_public_key(self, _: str) -> Any:
        return public_key()

    def resolve_private_key(self, _: str) -> Any:
        return private_key()


def sent(signer: RequestSigner, content: bytes) -> httpx.Request:
    headers = {"Idempotency-Key": "k 1", "If-Match": '"3"', "Content-Type": "application/json"}
    request = httpx.Request("POST", "https://Example.com/v1/a%20b?dry_run=true", content=content, headers=headers)
    return next(signer.auth_flow(request))


def test_another_implementation_verifies_what_our_client_signs() -> None:
    """An independent witness: pyauth's http-message-signatures."""
    request = sent(RequestSigner("k", PRIVATE), BODY)
    verifier = HTTPMessageVerifier(signature_algorithm=ED25519, key_resolver=_Keys())
    needed = ("@method", "@authority", "@path", "@query", "content-digest", "idempotency-key", "if-match")
    (found,) = verifier.verify(request, expect_tag="millrace", body=BODY, require_components=needed)
    assert found.parameters["keyid"] == "k"
    assert found.body == BODY


def test_we_verify_what_another_implementation_signs() -> None:
    request = httpx.Request("POST", "https://example.com/foo?a=b", content=BODY, headers=dict(FIELDS))
    signer = HTTPMessageSigner(signature_algorithm=ED25519, key_resolver=_Keys())
    covered = ("@method", "@authority", "@path", "@query", "content-digest")
    signer.sign(request, key_id="k", covered_component_ids=covered, use_existing_digest=True)
    fields = {name.lower(): value for name, value in request.headers.items()}
    signed = http_signature.read(Message("POST", "example.com", "/foo", "a=b", fields))
    assert signed is not None
    assert http_signature.verifies(public_key(), signed.signature, signed.base)


def test_each_try_of_the_client_is_signed_anew_and_reads_are_not() -> None:
    signer = RequestSigner("k", PRIVATE)
    first, second = sent(signer, BODY), sent(signer, BODY)
    assert first.headers["Signature"] != second.headers["Signature"]  # a nonce
    read = next(signer.auth_flow(httpx.Request("GET", "https://example.com/v1/events")))
    assert "Signature" not in read.headers
    assert "PRIVATE" not in repr(signer)
    with pytest.raises(TypeError):
        RequestSigner("k", _rsa())


def _rsa() -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def test_bounds_hold() -> None:
    """A signature of ours fits into what we take."""
    request = sent(RequestSigner("msk_" + "a" * 26, PRIVATE), BODY)
    assert len(request.headers["Signature-Input"]) < limits.SIGNATURE_FIELD_LENGTH_MAX / 4
    assert http_sf.parse(request.headers["Signature"].encode(), tltype="dictionary")
    assert (
        hashlib.sha256(BODY).digest()
        in http_sf.parse(request.headers["Content-Digest"].encode(), tltype="dictionary")["sha-256"]
    )  # type: ignore[call-overload,index]
