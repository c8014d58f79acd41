"""HTTP Message Signatures (RFC 9421) by Ed25519: what callers sign and what is verified, now or years later. Pure.

Covered are fields as they were sent and the derived components @method, @authority, @path and @query. What a proxy
decides (@scheme, @target-uri) and what has parameters (;sf, ;req, ;tr ...) is refused by name: a component that is read
in two ways would be signed in one and verified in the other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import http_sf
from cryptography.exceptions import InvalidSignature
from msgspec import Struct

from schemas import errors, limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ALGORITHM: Final = "ed25519"
#: of our signatures: one with another tag is meant for somebody else on the way
TAG: Final = "millrace"
INPUT_FIELD: Final = "signature-input"
SIGNATURE_FIELD: Final = "signature"
PARAMS: Final = "@signature-params"
DERIVED: Final = ("@method", "@authority", "@path", "@query")
_FIELD_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_TYPES: Final[dict[str, type]] = {"created": int, "expires": int, "keyid": str, "alg": str, "nonce": str, "tag": str}


class Message(Struct, frozen=True):
    """A request as it was sent. Names of fields are in lower case; several lines of one are joined by a comma."""

    method: str
    authority: str
    path: str  # percent-encoded, as on the wire
    query: str  # without its question mark
    fields: Mapping[str, str]

    def component(self, name: str) -> str:
        """The value of a component. Raises SignatureInvalid when the request has none."""
        if name == "@method":
            return self.method
        if name == "@authority":
            return self.authority.lower().removesuffix(":443").removesuffix(":80")
        if name == "@path":
            return self.path or "/"
        if name == "@query":
            return f"?{self.query}"
        value = self.fields.get(name)
        if value is None:
            raise errors.SignatureInvalid(f"The signature covers {name}, which the request does not have.")
        return value.strip(" \t")


class Signed(Struct, frozen=True):
    """One signature of a request, read and not yet believed."""

    label: str
    components: tuple[str, ...]
    params: Mapping[str, Any]
    base: bytes
    signature: bytes

    @property
    def tag(self) -> str:
        """For whom it is meant; without a tag, for us."""
        tag: str = self.params.get("tag", TAG)
        return tag


def base(message: Message, components: Sequence[str], params: str) -> bytes:
    """What is signed (RFC 9421 section 2.5). Raises SignatureInvalid for what has no one reading."""
    lines = [f'"{name}": {message.component(name)}' for name in components]
    text = "\n".join([*lines, f'"{PARAMS}": {params}'])
    if not text.isascii() or text.count("\n") != len(lines):
        raise errors.SignatureInvalid("A covered field has a line break or letters outside of ASCII.")
    return text.encode("ascii")


def sign(
    message: Message, components: Sequence[str], params: Mapping[str, int | str], key: Ed25519PrivateKey
) -> dict[str, str]:
    """The two fields that prove that the key's holder sent these components."""
    inputs = _inner_list(components, params)
    signature = key.sign(base(message, components, inputs))
    return {"Signature-Input": f"{TAG}={inputs}", "Signature": http_sf.ser({TAG: (signature, {})})}


def verifies(key: Ed25519PublicKey, signature: bytes, signed: bytes) -> bool:
    """Whether the key's holder signed these bytes."""
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def read(message: Message) -> Signed | None:
    """The signature that is meant for us, or None when there is none. Raises SignatureInvalid.

    More than one is refused, as is everything that has two readings: a label or component that comes twice, an
    input without its signature.
    """
    inputs = _dictionary(message, INPUT_FIELD)
    signatures = _dictionary(message, SIGNATURE_FIELD)
    if inputs.keys() != signatures.keys():
        raise errors.SignatureInvalid("Signature-Input and Signature must have the same labels.")
    if len(inputs) > limits.SIGNATURES_MAX:
        raise errors.SignatureInvalid(f"A request has at most {limits.SIGNATURES_MAX} signatures.")
    ours = [label for label, member in inputs.items() if _tag_of(member) == TAG]
    if len(ours) > 1:
        raise errors.SignatureInvalid("Several signatures are meant for us; send one.")
    return _signed(message, ours[0], inputs[ours[0]], signatures[ours[0]]) if ours else None


def _signed(message: Message, label: str, member: Any, signature: Any) -> Signed:
    components, params = _components(member), member[1]
    for name, value in params.items():
        if type(value) is not _TYPES.get(name, type(value)):
            raise errors.SignatureInvalid(f"The parameter {name} of the signature is not of its type.")
    if not isinstance(signature, tuple) or not isinstance(signature[0], bytes):
        raise errors.SignatureInvalid("A signature must be a byte sequence between colons.")
    signed = base(message, components, _inner_list(components, params))
    return Signed(label, components, params, signed, signature[0])


def _tag_of(member: Any) -> str:
    """Of what is no inner list too: it is ours to refuse."""
    tag = member[1].get("tag", TAG) if isinstance(member, tuple) else TAG
    return tag if type(tag) is str else TAG


def _components(member: Any) -> tuple[str, ...]:
    if not isinstance(member, tuple) or not isinstance(member[0], list):
        raise errors.SignatureInvalid("Signature-Input must list the covered components in parentheses.")
    if len(member[0]) > limits.SIGNATURE_COMPONENTS_MAX:
        raise errors.SignatureInvalid(f"A signature covers at most {limits.SIGNATURE_COMPONENTS_MAX} components.")
    names: list[str] = []
    for name, params in member[0]:
        if type(name) is not str or params or not (name in DERIVED or _FIELD_NAME.fullmatch(name)):
            raise errors.SignatureInvalid(
                f"The component {http_sf.ser((name, params))[:80]} is not supported: use fields in lower case and"
                f" {', '.join(DERIVED)}, without parameters."
            )
        names.append(name)
    if len(set(names)) != len(names):
        raise errors.SignatureInvalid("Signature-Input names a component twice.")
    return tuple(names)


def _inner_list(components: Sequence[str], params: Mapping[str, Any]) -> str:
    inner: list[http_sf.ItemType] = [(name, {}) for name in components]
    return http_sf.ser([(inner, dict(params))])


def _dictionary(message: Message, name: str) -> Mapping[str, Any]:
    """A structured field (RFC 9651). Rule of ours: no key twice, where the RFC takes the last."""
    value = message.fields.get(name, "")
    if len(value) > limits.SIGNATURE_FIELD_LENGTH_MAX:
        raise errors.SignatureInvalid(f"{name} is longer than {limits.SIGNATURE_FIELD_LENGTH_MAX} characters.")

    def refuse_duplicate(key: str, _: str) -> None:
        raise errors.SignatureInvalid(f"{name} says {key[:40]} twice.")

    try:
        found = http_sf.parse(value.encode("ascii"), tltype="dictionary", on_duplicate_key=refuse_duplicate)
    except ValueError as error:  # of both kinds: no ASCII, no structured field
        raise errors.SignatureInvalid(f"{name} is not a dictionary (RFC 9651).") from error
    return found  # type: ignore[return-value] # of the type that was asked for
