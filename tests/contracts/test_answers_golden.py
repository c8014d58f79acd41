"""An answer that is rendered again from its event has the same bytes for ever, and they are what its caller was told."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from schemas import errors, service, services, stored_answer, stored_event
from schemas.avro import codec
from schemas.payments import frozen_answers, rendering
from schemas.payments.records import PaymentIntent
from tests.contracts import golden

EVENT = golden.of_json(json.loads((golden.FOLDER / "PaymentSystemCommitted.v6.json").read_text()))
PAYLOAD = (golden.FOLDER / "PaymentSystemCommitted.v6.bin").read_bytes()
HEAD = (
    '"event":{"event_id":"evt_p0007000000000001","aggregate_key":"pi_golden","event_type":"payment_system_committed",'
    '"schema_version":6,"trace_id":"0123456789abcdef0123456789abcdef"}}'
)
#: by number: what this event was answered with. A line that was released never changes.
ANSWERS = {
    0: '{"result":null,"event":{"event_id":"evt_p0007000000000001","aggregate_key":"pi_golden"}}',
    1: '{"result":{"id":"pi_golden","object":"payment_intent","merchant_id":"m_1","amount":9007199254740991,'
    '"currency":"KWD","state":"succeeded","version":3,"capture_method":"manual","payment_method":"tok_a",'
    '"processor":"simulator","amount_capturable":0,"amount_received":1,"amount_refunded":0,"amount_disputed":0,'
    '"last_payment_error":null,"cancellation_reason":"duplicate","latest_attempt":2,"next_action":{"type":'
    '"redirect_to_url","url":"https://acs.example/challenge"},"authorized_until":"2027-01-15T08:10:00.000000Z",'
    '"reference":"Auftrag Nr. 7","description":"Zwölf Gläser","receipt_email":"ada@example.org",'
    '"statement_descriptor":"ORDER 7","return_url":"https://shop.example/back","metadata":{"bestellung":"Ä-1 \U0001f4b3"},'
    '"created_at":"2027-01-15T08:00:00.000000Z","updated_at":"2027-01-15T08:00:00.000002Z"},' + HEAD,
}
#: by dictionary: how PAYLOAD was stored by it, after its number. A line that was released never changes.
PACKED = {
    1: "KLUv/QAIDRMA05xqVvcoE4mz4JU+E+caAj4lTW8A8LgbApiAd/pMfAE+JR+aTt+G3m74WKgJXJedEyhpE7ALMOHHytO4ieRBB/gA"
    "wIQfKa+B/mQDZFk+3tenLgAfy5P8ChbgcZrn/lQAH1AppU8987TUDY8qmTiUP7GA6t6XIGCZACcKSusC6BvwQfXS9zWu/f+hStoF"
    "QhYPToB66TthAvCxWCh5kslDsXAyseChTKQM+LCw2ix0n+5Jmv42QiItw/xpAz6W5WNFFi7LpwU+mAEoAxPwQU0gBzxwwQRGMCeA"
    "lTTvM5024HNHEFnwTibOnxKgw7JMiCycOAD4+EgWONMCQCOut/S5E8iBC1qQgxsUwAc7mUKQAt11Cj4nj1riBAkGE/gkKk6kggAB"
    "nzuBEJxsMAFMn7z/qcABPiEpT3zxhJoiOXw8VvIkks64CDyJ27TKhwDFtQhEMAIU53nZCHx8clhGCOGBzgQiCHY4cQMrfSSS91B+"
    "J8AH5D3NNRL39Rs+lmX5aAG0wAczCEkgjT2RhS0UCkl5oosYtuTY4fN951tnfG2lU8YrBTZKvpNMN+J1XRoERfxwbHETDQj76rBd"
    "BStQY/9Zv9AGvl2RTO3TH3JZLe5tfvATZtL5woLk8aZaP18j7IszXuWaaAsYalSrS7BBqlnxxoNO9Ab9Ni8FVl9wGudl9yV6rmHP"
    "MWcFMytkJ5IXYiQyDR1eEpeF0jEtxmsqgKQm1LYujD6H06mQ0lSW3bQyyp+kYPLYCEeYrbSso2HQLUUV4IsVj/h80Q1L0whuXHHI"
    "ItyLpl6KlA4DTIDHO1SK+WMB"
}
INTENTS: list[dict[str, Any]] = [
    {},
    dict.fromkeys(
        (
            *("payment_method", "last_payment_error", "cancellation_reason", "next_action", "authorized_until"),
            *("reference", "description", "receipt_email", "statement_descriptor", "return_url"),
        )
    ),
    {"last_payment_error": "card_declined", "metadata": {"z": '"\\', "a": "\x7f"}},
    {"next_action": '{"details": {"nested": [1, null, "Ä"]}, "type": "use_stripe_sdk", "url": null}', "metadata": {}},
    {"created_at": 1, "updated_at": 253_402_300_799_999_999, "authorized_until": 0},
]


def test_every_rendering_has_golden_bytes() -> None:
    assert {0, *services.BY_NAME["payments"].renderings} == ANSWERS.keys()
    assert all(0 < n < ord(" ") for service in services.SERVICES for n in service.renderings)


@pytest.mark.parametrize("number", ANSWERS)
def test_an_event_is_rendered_for_ever_as_it_was_first(number: int) -> None:
    assert stored_answer.whole(bytes((number,)), PAYLOAD).decode() == ANSWERS[number]


@pytest.mark.parametrize("changes", INTENTS)
def test_what_a_caller_is_told_is_what_its_retries_are_told(changes: dict[str, Any]) -> None:
    """If this is red since intents show more: add a rendering with the next number, and name it ``INTENT``."""
    intent = PaymentIntent(**EVENT["body"]["payment_intent"] | changes)
    head = {name: EVENT[name] for name in ("event_id", "aggregate_key", "event_type", "schema_version", "trace_id")}
    answer = stored_answer.told(rendering.payment_intent(intent), head)
    event = codec.encode("PaymentSystemCommitted", EVENT | {"body": EVENT["body"] | {"payment_intent": intent}})
    response = stored_answer.rendered_by(frozen_answers.INTENT)
    assert response is not None
    assert (len(response), stored_answer.whole(response, event)) == (1, answer)


@pytest.mark.parametrize("answer", [b'{"code":"state_conflict"}', b"{}"])
def test_an_answer_that_is_stored_as_it_was_told_needs_no_event(answer: bytes) -> None:
    assert stored_answer.rendered_by(stored_answer.WHOLE) is None
    assert stored_answer.whole(answer, None) == answer


@pytest.mark.parametrize(("response", "event"), [(b"\x01", None), (b"\x1f", PAYLOAD), (b"\x01", PAYLOAD[:40])])
def test_an_answer_that_cannot_be_rendered_is_an_error_and_never_another_answer(
    response: bytes, event: bytes | None
) -> None:
    with pytest.raises(errors.Corrupt):
        stored_answer.whole(response, event)


def test_while_readers_of_the_release_before_run_answers_are_stored_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(setting: str) -> bytes | None:
        monkeypatch.setenv("MILLRACE_WRITTEN_ANSWERS", setting)
        stored_event.only_published.cache_clear()
        return stored_answer.rendered_by(frozen_answers.INTENT)

    with pytest.raises(ValueError, match="MILLRACE_WRITTEN_ANSWERS"):
        kept("hole")
    assert [kept("whole"), kept("by_event")] == [None, b"\x01"]


def test_while_readers_of_the_release_before_run_events_are_stored_as_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MILLRACE_WRITTEN_ANSWERS", "whole")
    stored_event.only_published.cache_clear()
    try:
        assert stored_event.kept([PAYLOAD], 1) == [PAYLOAD]
    finally:
        monkeypatch.undo()
        stored_event.only_published.cache_clear()
    assert stored_event.kept([PAYLOAD], 1)[0][:1] == b"\x01"


@pytest.mark.parametrize("number", PACKED)
def test_what_was_stored_by_a_dictionary_is_read_for_ever(number: int) -> None:
    """If this is red a dictionary was changed, and nothing that was stored by it can be read: add another one."""
    stored = bytes((number,)) + base64.b64decode(PACKED[number])
    assert stored_event.published(stored) == PAYLOAD
    assert stored_answer.whole(b"\x01", stored).decode() == ANSWERS[1]


def test_every_dictionary_has_golden_bytes() -> None:
    assert all(0 < number < ord(" ") for number in stored_event._dictionaries())
    assert {s.dictionary for s in services.SERVICES} - {service.NO_DICTIONARY} <= stored_event._dictionaries().keys()
    assert stored_event._dictionaries().keys() == PACKED.keys()


@pytest.mark.parametrize("payload", [PAYLOAD, PAYLOAD * 40, b"a record", b"\x00", b"\x00" + bytes(range(256)), b""])
def test_an_event_is_read_as_it_was_published_and_takes_no_more_bytes(payload: bytes) -> None:
    (stored,) = stored_event.kept([payload], 1)
    assert (stored_event.published(stored), len(stored) <= len(payload)) == (payload, True)
    assert stored_event.kept([payload], service.NO_DICTIONARY) == [payload]


def test_many_events_at_once_are_stored_as_each_alone() -> None:
    payloads = [b"", PAYLOAD, *(PAYLOAD + b"%d" % n for n in range(100)), b"\x00", PAYLOAD * 40]
    assert stored_event.kept(payloads, 1) == [stored_event.kept([payload], 1)[0] for payload in payloads]


@pytest.mark.parametrize("stored", [b"\x1f", b"\x1f" + PAYLOAD, b"\x01", b"\x01" + PAYLOAD])
def test_a_stored_event_that_cannot_be_read_is_an_error_and_never_another_event(stored: bytes) -> None:
    with pytest.raises(errors.Corrupt):
        stored_event.published(stored)


def test_a_stored_event_that_is_cut_is_an_error() -> None:
    with pytest.raises(errors.Corrupt):
        stored_event.published(stored_event.kept([PAYLOAD], 1)[0][:-4])
