"""The table of cards: what each token does on which send and query."""

from __future__ import annotations

import pytest

from compose.simulator.modes import INVALID_TOKEN, MODES, Answer, Send, mode_of
from schemas import limits

TRUTH = Send()


@pytest.mark.parametrize(
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
    }


def test_garbage_reads_true_from_the_third_query_on() -> None:
    answers = [MODES["tok_sim_garbage"].query(number) for number in range(1, 5)]
    assert answers == [Answer.GARBAGE, Answer.GARBAGE, Answer.TRUTH, Answer.TRUTH]


def test_every_fault_ends_at_the_truth() -> None:
    """A card that never lets its caller find out would prove nothing."""
    for token, mode in MODES.items():
        assert mode.query(limits.SIMULATOR_GARBAGE_QUERIES + 1) is Answer.TRUTH, token
        assert mode.send(2).executes, token


def test_a_token_of_no_card_is_declined() -> None:
    assert mode_of("tok_visa") is INVALID_TOKEN
    assert INVALID_TOKEN.decline_code == "invalid_token"
