"""What is sealed opens only as it was sealed, at its own place, with its own key."""

from __future__ import annotations

import base64
import secrets
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gate import examples
from vault import sealing
from vault.card import Card
from vault.key_file import KeyRing
from vault.sealing import CardUnreadable, KeyMissing, Place

RING = KeyRing({"kek_0001": secrets.token_bytes(32), "kek_0002": secrets.token_bytes(32)}, secrets.token_bytes(32))
PLACE = Place("tok_a", "m_a")
CARD = Card(number="4242424242424242", network="visa", exp_month=12, exp_year=2035)
numbers = st.text("0123456789", min_size=12, max_size=19)


@given(numbers, st.integers(1, 12), st.integers(2000, 2199), st.text(max_size=20), st.text(max_size=20))
def test_a_sealed_card_opens_at_its_place(number: str, month: int, year: int, token: str, merchant: str) -> None:
    card = Card(number=number, network="unknown", exp_month=month, exp_year=year)
    sealed = sealing.seal(card, Place(token, merchant), "kek_0001", RING)
    assert sealing.unseal(sealed, Place(token, merchant), RING) == card
    moved = sealing.rewrapped(sealed, Place(token, merchant), "kek_0002", RING)
    assert moved.ciphertext == sealed.ciphertext
    assert sealing.unseal(moved, Place(token, merchant), RING) == card


@given(st.booleans(), st.integers(0, 2**16), st.integers(1, 255))
def test_a_changed_byte_does_not_open(of_key: bool, place: int, change: int) -> None:
    sealed = sealing.seal(CARD, PLACE, "kek_0001", RING)
    field = "wrapped_key" if of_key else "ciphertext"
    data = bytearray(getattr(sealed, field))
    data[place % len(data)] ^= change
    with pytest.raises(CardUnreadable):
        sealing.unseal(replace(sealed, **{field: bytes(data)}), PLACE, RING)  # type: ignore[arg-type]


@given(st.booleans(), st.integers(0, 200))
@settings(max_examples=examples(15, 60))
def test_a_cut_or_padded_one_does_not_open(of_key: bool, length: int) -> None:
    sealed = sealing.seal(CARD, PLACE, "kek_0001", RING)
    field = "wrapped_key" if of_key else "ciphertext"
    data = getattr(sealed, field)
    if length != len(data):
        with pytest.raises(CardUnreadable):
            sealing.unseal(replace(sealed, **{field: data.ljust(length, b"\0")[:length]}), PLACE, RING)


@pytest.mark.parametrize(
    "other", [Place("tok_b", "m_a"), Place("tok_a", "m_b"), Place("tok_a\x1fm_a", ""), Place("", "tok_a\x1fm_a")]
)
def test_at_another_place_it_does_not_open(other: Place) -> None:
    """Not in another row, not for another merchant, not half of it."""
    sealed, elsewhere = sealing.seal(CARD, PLACE, "kek_0001", RING), sealing.seal(CARD, other, "kek_0001", RING)
    for wrong in (
        (sealed, other),
        (replace(sealed, ciphertext=elsewhere.ciphertext), PLACE),
        (replace(sealed, wrapped_key=elsewhere.wrapped_key), PLACE),
        (replace(sealed, ciphertext=elsewhere.ciphertext, wrapped_key=elsewhere.wrapped_key), PLACE),
    ):
        with pytest.raises(CardUnreadable):
            sealing.unseal(*wrong, RING)


def test_with_another_key_it_does_not_open() -> None:
    """Another key of the same id, another id, no key at all."""
    sealed = sealing.seal(CARD, PLACE, "kek_0001", RING)
    with pytest.raises(CardUnreadable):
        sealing.unseal(sealed, PLACE, KeyRing({"kek_0001": secrets.token_bytes(32)}, RING.mac_key))
    with pytest.raises(CardUnreadable):
        sealing.unseal(replace(sealed, key_id="kek_0002"), PLACE, RING)
    with pytest.raises(KeyMissing):
        sealing.unseal(sealed, PLACE, KeyRing({"kek_0002": RING.wrapping_keys["kek_0002"]}, RING.mac_key))


def test_what_an_earlier_release_sealed_opens() -> None:
    """The layout and what is authenticated with it never change under cards that are stored."""
    ring = KeyRing({"kek_0001": bytes(range(32))}, bytes(32))
    sealed = sealing.Sealed(
        key_id="kek_0001",
        wrapped_key=base64.b64decode(
            "g7vLk8xo84vKLjpV1xr0GsJx1j/6YFZ728LpCRxtLSjKV9QzBUJEM+A7rBbLRlhzeIwcTe8QMn8bt2ho"
        ),
        ciphertext=base64.b64decode(
            "/tuIAacaHZBZE9RGzpKc4lmOwn0tUw/saDMESjQNARLyiw1arO3ZCD/knCKhEBNTAq0WqFww8tc1IQ3HjBXpJJ0KIC+vuApzYBYnymhxv"
            "12vlAU26paXCo1t8/c+6Ig2QW5TYsh3INZdkARUWWy+HX8EF7XMQ1dDC/qotA=="
        ),
    )
    assert sealing.unseal(sealed, PLACE, ring) == CARD
    assert sealing.fingerprint(CARD.number, "m_a", ring) == "gqlckifnuzdpdl4ykutki4zl5u"
    assert sealing.check_value(bytes(32), "mac").hex().startswith("d39356c1789394cd")


def test_nothing_of_the_card_shows() -> None:
    """Every sealing is another text of the same length, whatever the number's length."""
    cards = [replace(CARD, number="4" * n) for n in range(12, 20)] + [CARD, CARD]
    sealed = [sealing.seal(card, PLACE, "kek_0001", RING) for card in cards]
    assert len({len(s.ciphertext) for s in sealed}) == 1
    assert len({s.ciphertext for s in sealed} | {s.wrapped_key for s in sealed}) == 2 * len(sealed)
    assert all(b"4444" not in s.ciphertext for s in sealed)
    shown = f"{sealed[0]!r} {RING!r}"
    assert not any(
        part in shown
        for part in (repr(sealed[0].ciphertext), repr(RING.mac_key), *map(repr, RING.wrapping_keys.values()))
    )


@given(numbers, numbers, st.text(max_size=9), st.text(max_size=9))
def test_fingerprints_are_equal_for_equal_cards_only(one: str, two: str, merchant: str, other: str) -> None:
    same = sealing.fingerprint(one, merchant, RING) == sealing.fingerprint(two, other, RING)
    assert same is ((one, merchant) == (two, other))
    assert sealing.fingerprint(one, merchant, RING) != sealing.fingerprint(
        one, merchant, KeyRing(RING.wrapping_keys, b"x" * 32)
    )


def test_the_macs_of_one_value_differ_by_purpose() -> None:
    """A digest of one kind can never be taken for one of another."""
    key = RING.wrapping_keys["kek_0001"]
    digests = {
        sealing.key_digest("4242424242424242", "m", RING),
        sealing.request_digest(CARD, "m", RING),
        sealing.check_value(key, "kek_0001"),
        sealing.check_value(key, "kek_0002"),
    }
    assert len(digests) == 4
