"""Texts that people read hold nothing that nobody sees; what only machines compare is bound by what stores can hold."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from schemas import errors, services
from schemas.fields import legible_text, validation
from schemas.fields.validation import ValueType
from schemas.operators import access_denial, maintenance
from schemas.payments.policies import kinds
from tests.each import each

#: the first and last of every kind that no line holds
HIDDEN: Final = (
    *("\x00", "\t", "\n", "\x1f", "\x7f", "\x80", "\x85", "\x9f"),
    *("\u061c", "\u200e", "\u200f", "\u202a", "\u202c", "\u202e", "\u2066", "\u2069"),
    *("\u2028", "\u2029", "\ud800", "\udfff", "\ufdd0", "\ufdef", "\ufffe", "\uffff", "\U0001fffe", "\U0010ffff"),
)
SEEN: Final = (
    "Bestellung 7, Größe L",
    "طلب رقم ٧",
    "הזמנה 7",
    "注文 7",
    "می\u200cخواهم",
    "👩\u200d🚀 ☕\ufe0f",
    "a\u00a0b",
    "é",
)
#: who fills them is a machine, or they are compared and never shown as somebody's words
OF_MACHINES: Final = {
    *("operation_id", "provider_ref", "currency", "error_code", "next_action", "line_id", "kind", "bank", "manifest"),
    *("tenant", "user", "route", "sealed", "person", "reviewer"),
}
#: in other operations they are somebody's words
OF_MACHINES_HERE: Final = {("record_dispute", "reason"), ("post_journal", "reference")}
#: said beside a fact, which is taken as it comes
FACTS_HERE: Final = {("record_payout_outcome", "reason")}
SAMPLES: Final[tuple[Any, ...]] = ("Order 7", "Order7", "a@b.co", {"receipt": "Order 7"}, {"de": {"kind": "static"}})


@each("hidden", HIDDEN)
def test_what_nobody_sees_is_in_no_line(hidden: str) -> None:
    for text in (f"paid{hidden}1.00", hidden, f"{hidden}x", f"x{hidden}"):
        reason = legible_text.line_fault(text)
        assert reason is not None
        assert reason.isprintable()
        assert validation.free_text(text, 100) is not None
        assert validation.metadata({"note": text}) is not None
        assert validation.metadata({text: "note"}) is not None
    assert legible_text.line_fault("paid 1.00") is None
    if not "\ud800" <= hidden <= "\udfff" and hidden <= "\uffff":  # JSON Schema's pattern tells the same
        assert not re.search(legible_text.LEGIBLE, f"a{hidden}b")
        assert not re.search(legible_text.SAYS_SOMETHING, f"a{hidden}b")


@each("text", SEEN)
def test_what_is_seen_is_the_writers_own(text: str) -> None:
    assert legible_text.line_fault(text) is None
    assert legible_text.prose_fault(f"{text}\n\t{text}") is None
    assert re.search(legible_text.LEGIBLE, text)
    assert re.search(legible_text.SAYS_SOMETHING, text)


@each(
    "blank", (" ", "\u00a0", "\u2003", "\u200b", "\u200d", "\u2060", "\ufeff", "\u3000", "\u3164", "\u2800", "\ufe0f")
)
def test_what_shows_nothing_says_nothing(blank: str) -> None:
    """Where a person has to say why, or what it is called; beside a text blanks are the writer's own."""
    for text in (blank, f" {blank}  {blank}"):
        assert validation.said_text(text, 100) == "must say something"
        assert not re.search(legible_text.SAYS_SOMETHING, text)
        with pytest.raises(errors.InvalidCommand):
            maintenance.canonical({"on": True, "reason": text})
        with pytest.raises(errors.InvalidCommand):
            access_denial.require("merchant", "m_1", text)
        assert not validation.is_person(text)
    assert validation.said_text(f"{blank}x{blank}", 100) is None
    assert re.search(legible_text.SAYS_SOMETHING, f"{blank}x{blank}")
    assert validation.free_text(blank, 100) is None, "what nobody has to say may be blank"


def test_nobody_is_seen_by_a_tag_or_a_selector_of_another_plane() -> None:
    assert validation.said_text("\U000e0041\U000e0100", 100) == "must say something"


@each("operation", services.OPERATIONS.values())
def test_every_reason_and_name_that_must_be_given_says_something(operation: Any) -> None:
    """A field that comes tomorrow is one of them, or it is named as one of machines, or of a fact."""
    if operation.method == "FACT":
        return
    for name in ("reason", "name", "note", "ticket", "display_name"):
        field = operation.payload.get(name)
        if (
            field is None
            or (operation.name, name) in OF_MACHINES_HERE | FACTS_HERE
            or field.type.check("why") is not None
        ):
            continue
        assert field.type.check(" \u200b") == "must say something", (operation.name, name)


@each("operation", services.OPERATIONS.values())
def test_every_field_that_people_read_is_legible(operation: Any) -> None:
    """A field that comes tomorrow is one of them, or it is named here as one of machines."""
    for name, field in operation.payload.items():
        if name in OF_MACHINES or (operation.name, name) in OF_MACHINES_HERE:
            continue
        for taken in _taken(field.type):
            assert field.type.check(_with_override(taken)) is not None, (operation.name, name)


def _taken(kind: ValueType) -> list[Any]:
    return [sample for sample in SAMPLES if kind.check(sample) is None]


def _with_override(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_override(said) for name, said in value.items()}
    return f"{value[:2]}\u202e{value[2:]}"


@each(
    ("text", "fault"),
    [
        ("שלום\u200f!\n\tC\u200e++", None),  # marks beside punctuation
        ("\u2067שלום\u2069 and \u2066C++\u2069", None),
        ("\u202bשלום \u2066(C++)\u2069\u202c", None),
        ("\u202eesrever\u202c", None),  # closed: it turns nothing but itself
        ("\u202eesrever", "U+202E"),
        ("\u2067שלום", "U+2067"),
        ("\u202eesrever\nnext\u202c", "U+202E"),  # a line ends what it opened: the other line closes nothing
        ("shown\u202c", "U+202C"),
        ("shown\u2069", "U+2069"),  # would close what a page opens around it
        ("\u2067a\u202c", "U+202C"),
        ("\u202a\u2066x\u202c\u2069", "U+202C"),
        ("\u202eesrever\x85next\u202c", "U+202E"),  # a paragraph ends there, too
        ("\u202eesrever\u2029next\u202c", "U+202E"),
        ("a\u2028b", None),  # as pasted
        ("Mod\xc4\x8d and \xe2\x81\xa0", None),  # as posts are when somebody took UTF-8 for another encoding
        ("two\r\nlines\r\n\r\n", None),  # as they are pasted from Windows
        ("\u202eesrever\r\nnext\u202c", "U+202E"),
        ("a\rb", "control"),
        ("a\r\r\nb", "control"),  # the first one stands alone
        ("a\ud800b", "control"),
    ],
)
def test_prose_may_turn_itself_and_nothing_beside_it(text: str, fault: str | None) -> None:
    reason = legible_text.prose_fault(text)
    assert reason is None if fault is None else fault in (reason or "")
    assert services.OPERATIONS["publish_post"].payload["text"].type.check(text) == reason


def test_documents_of_operators_are_legible() -> None:
    rule = {"name": "rent", "text": "rent \u202e"}
    assert _refused("bank_rules", {"rules": [rule]}) == ["rules[0].text"]
    assert _refused("bank_rules", {"rules": [{"name": "rent", "party": "\u2066x"}]}) == ["rules[0].party"]
    rates = {"as_of": "2026-12-01T00:00:00Z", "valid_until": "2026-12-02T00:00:00Z", "rates": {}}
    assert _refused("reference_rates", rates | {"source": "ECB\u200f"}) == ["source"]
    with pytest.raises(errors.InvalidCommand):
        maintenance.canonical({"on": True, "reason": "back\u202eat 7"})
    with pytest.raises(errors.InvalidCommand):
        access_denial.require("merchant", "m_1", "why\u2028not")
    assert not validation.is_person("ada\u202egro")
    assert validation.is_person("Ådа 渡辺")


@each("unseen", ("{} ", " {}", "{}\u200b", "{}\u00a0", "\u2060{}", "ada  {}", "{}\u3164", "{}\ufe0f", "{}\U000e0041"))
def test_no_person_looks_like_another_one(unseen: str) -> None:
    """Four eyes are two persons: what nobody sees makes no second one."""
    assert validation.is_person("lovelace")
    assert validation.is_person("ada lovelace")
    assert not validation.is_person(unseen.format("lovelace"))


def _refused(kind: str, document: dict[str, Any]) -> list[str]:
    with pytest.raises(errors.InvalidCommand) as refused:
        kinds.canonical(kind, document, ())
    return [fault["field"] for fault in refused.value.errors]


def test_what_an_earlier_release_stored_is_found() -> None:
    """A filter compares: what was taken before is looked for as it was written."""
    assert validation.sought_text("a\u202eb", 10) is None
    assert validation.metadata({"note": "a\u202eb"}, validation.sought_text) is None
    assert validation.sought_text("a\x00b", 10) is not None
