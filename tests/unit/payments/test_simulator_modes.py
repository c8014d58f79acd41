"""The table of cards: what each token does on which send and query."""

from __future__ import annotations

import pytest

from compose.simulator import limits
from compose.simulator.operations.cards import Card, is_card_number, kept_as, network_of
from compose.simulator.operations.modes import APPROVE, INVALID_TOKEN, MODES, Answer, Send, mode_of
from tests.each import each

TRUTH = Send()


@each(
    ("token", "first", "second"),
    [
        ("tok_sim_approve", TRUTH, TRUTH),
        ("tok_sim_decline", TRUTH, TRUTH),
        ("tok_sim_slow", TRUTH, TRUTH),
        ("tok_sim_wrong_amount", TRUTH, TRUTH),
        ("tok_sim_timeout_after_commit", Send(answer=Answer.LOST), TRUTH),
        ("tok_sim_error_before_commit", Send(executes=False, answer=Answer.ERROR), TRUTH),
        ("tok_sim_error_after_commit", Send(answer=Answer.ERROR), TRUTH),
        ("tok_sim_garbage", Send(answer=Answer.GARBAGE), Send(answer=Answer.GARBAGE)),
        ("tok_sim_webhook_only", Send(answer=Answer.LOST), Send(answer=Answer.ERROR)),
        ("tok_sim_webhook_first", TRUTH, TRUTH),
        ("tok_sim_webhook_storm", TRUTH, TRUTH),
        ("tok_sim_refund_fails_later", TRUTH, TRUTH),
    ],
)
def test_each_card_shows_its_fault_on_the_named_send(token: str, first: Send, second: Send) -> None:
    mode = mode_of(token)
    assert (mode.send(1), mode.send(2), mode.send(50)) == (first, second, second)


def test_only_cards_with_a_healing_fault_are_counted() -> None:
    """An uncounted card costs no counter row; a counted one must not lose its count over a restart."""
    assert {token for token, mode in MODES.items() if mode.is_counted} == {
        "tok_sim_timeout_after_commit",
        "tok_sim_error_before_commit",
        "tok_sim_error_after_commit",
        "tok_sim_garbage",
        "tok_sim_webhook_only",
    }


def test_garbage_reads_true_from_the_third_query_on() -> None:
    answers = [MODES["tok_sim_garbage"].query(number) for number in range(1, 5)]
    assert answers == [Answer.GARBAGE, Answer.GARBAGE, Answer.TRUTH, Answer.TRUTH]


def test_every_fault_ends_at_the_truth() -> None:
    """A card that never lets its caller find out would prove nothing: in an answer, or in a webhook alone."""
    told = {token: mode.query(limits.SIMULATOR_GARBAGE_QUERIES + 1) for token, mode in MODES.items()}
    assert told.pop("tok_sim_webhook_only") is Answer.ERROR
    assert set(told.values()) == {Answer.TRUTH}
    for token, mode in MODES.items():
        assert mode.send(2).executes, token


def test_a_token_of_no_card_is_declined() -> None:
    assert mode_of("tok_visa") is INVALID_TOKEN
    assert INVALID_TOKEN.decline_code == "invalid_token"


def test_a_card_by_number_behaves_by_what_is_kept_of_it() -> None:
    """The number itself is gone by then; no caller can name a kept card, as no token holds a blank."""
    cards = {n: Card(number=n, exp_month=1, exp_year=2030) for n in ("4242424242424242", "4000000000000002")}
    kept = {number: kept_as(card) for number, card in cards.items()}
    assert kept == {"4242424242424242": "card visa 4242 approves", "4000000000000002": "card visa 0002 declines"}
    assert mode_of(kept["4242424242424242"]) is APPROVE
    assert mode_of(kept["4000000000000002"]).decline_code == "card_declined"
    assert "4242424242424242" not in repr(cards["4242424242424242"])


@pytest.mark.parametrize(
    ("number", "network"),
    [
        ("4242424242424242", "visa"),
        ("5555555555554444", "mastercard"),
        ("2223003122003222", "mastercard"),
        ("378282246310005", "amex"),
        ("6011111111111117", "discover"),
        ("3530111333300000", "jcb"),
        ("9792000000000001", "unknown"),
    ],
)
def test_networks_are_known_by_their_first_digits(number: str, network: str) -> None:
    assert network_of(number) == network
    assert is_card_number(number) is (network != "unknown")
    assert not is_card_number(number[:-1] + str((int(number[-1]) + 1) % 10))
