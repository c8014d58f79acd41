"""The soak's judgement of kills: nothing is left out, nothing that did not recover passes, and times are the callers'."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from compose.proof.soak.outages import Answers, Disturbance, Outages, Way, died_alone, missed, outages
from compose.supervise.state import Kind, ProcessState
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import Sequence


def process(name: str, kind: Kind) -> ProcessState:
    return ProcessState(name=name, kind=kind, pid=1)


#: the guard is of the supervisor's kind, as in the state file
STACK = [
    process("supervisor", "supervisor"),
    process("guard", "supervisor"),
    process("kafka", "server"),
    process("postgres", "server"),
    process("owner-0", "service"),
    process("vault-0", "service"),
]


def disturbed(name: str, how: Way = "killed", **changes: Any) -> Disturbance:
    fields: dict[str, Any] = {"name": name, "how": how, "at_s": 100.0, "back_after_s": 4.0}
    return Disturbance(**fields | changes)


WHOLE = [
    disturbed("kafka"),
    disturbed("postgres"),
    disturbed("postgres", "shut down"),
    disturbed("owner-0"),
    disturbed("vault-0"),
    disturbed("owner-0", "frozen"),
    disturbed("kafka and postgres", "killed together", group=("kafka", "postgres")),
    disturbed("everything", "killed together", group=("kafka", "postgres", "owner-0", "vault-0")),
]


def heard(*commands: tuple[float, float]) -> Answers:
    """When each was sent and answered, in the order of the answers."""
    answers = Answers()
    for sent, answered in commands:
        answers.note(sent, answered)
    return answers


AFTERWARDS = heard((100.5, 103.0))


def test_a_whole_turn_that_recovered_misses_nothing() -> None:
    assert missed(STACK, WHOLE, AFTERWARDS) == []
    assert missed(STACK, WHOLE * 2, AFTERWARDS) == []


@each(
    ("left_out", "says"),
    [
        (0, "never killed: kafka"),
        (1, "never killed: postgres"),
        (2, "never shut down: postgres"),
        (3, "never killed: owner-0"),
        (4, "never killed: vault-0"),
        (5, "no owner was frozen"),
        (6, "never killed together: kafka and postgres"),
        (7, "never killed together: everything"),
    ],
)
def test_what_was_left_out_is_missed(left_out: int, says: str) -> None:
    done = [one for n, one in enumerate(WHOLE) if n != left_out]
    assert missed(STACK, done, AFTERWARDS) == [says]


def test_each_kind_that_is_to_stand_still_is_missed_by_itself() -> None:
    done = [*WHOLE, disturbed("vault-0", "frozen")]
    assert missed(STACK, done, AFTERWARDS, ["owner", "vault"]) == []
    assert missed(STACK, WHOLE, AFTERWARDS, ["owner", "vault"]) == ["no vault was frozen"]


def test_nothing_done_is_everything_missed() -> None:
    assert len(missed(STACK, [], AFTERWARDS)) == len(WHOLE)


def test_what_did_not_come_back_fails_although_it_came_back_another_time() -> None:
    done = [*WHOLE, disturbed("kafka", back_after_s=None)]
    assert missed(STACK, done, AFTERWARDS) == ["kafka killed, did not come back"]


@pytest.mark.parametrize(
    "answers",
    [heard(), heard((90.0, 99.0)), heard((99.9, 104.0)), heard((101.0, 100.0 + 10_000))],
    ids=["none", "before", "sent before", "hours later"],
)
def test_a_process_is_not_back_for_callers_until_a_command_sent_afterwards_is_answered(answers: Answers) -> None:
    problems = missed(STACK, WHOLE, answers)
    assert [problem.startswith("no command was answered after: ") for problem in problems] == [True] * len(WHOLE)


def test_a_service_that_ends_when_a_server_goes_away_is_noticed() -> None:
    def restarted(name: str, times: int) -> ProcessState:
        return ProcessState(name=name, kind="service", pid=1, restarts=times)

    assert died_alone([restarted("postgres", 4), restarted("owner-0", 2), restarted("vault-0", 2)], WHOLE) == []
    assert died_alone([restarted("vault-0", 3), restarted("kafka", 3)], WHOLE) == [
        "vault-0 was started again 3 times and ended 2 times: see its log"
    ]
    assert died_alone([restarted("owner-0", 1)], [disturbed("owner-0", "frozen")]) != [], "a freeze ends nothing"


@pytest.mark.parametrize(
    ("commands", "felt"),
    [
        ([(99.0, 101.0), (100.5, 103.0)], (3.0, 2.5)),
        ([(100.2, 100.3), (100.5, 109.5), (104.1, 130.0)], (pytest.approx(0.3), 9.0)),
        ([(104.5, 105.0)], (5.0, 0.0)),
    ],
    ids=["waits for the first sent afterwards", "the longest of those sent meanwhile", "all sent after the outage"],
)
def test_what_callers_felt(commands: Sequence[tuple[float, float]], felt: tuple[float, float]) -> None:
    assert heard(*commands).felt(disturbed("kafka")) == felt


def test_the_report_counts_by_process_and_way_and_begins_with_the_worst() -> None:
    done = [
        disturbed("vault-0", back_after_s=2.0),
        disturbed("kafka", at_s=200.0, back_after_s=6.0),
        disturbed("kafka", at_s=300.0, back_after_s=8.0),
        disturbed("postgres", "shut down", at_s=400.0, back_after_s=None),
    ]
    answers = heard((100.0, 100.1), (200.0, 205.0), (300.5, 307.0))
    assert outages(done, answers) == [
        _row("postgres", "shut down", 1, (60.0, 60.0, 0.0, 60.0, 60.0)),
        _row("kafka", "killed", 2, (6.0, 7.0, 6.5, 7.0, 8.0)),
        _row("vault-0", "killed", 1, (0.1, 0.1, 0.1, 2.0, 2.0)),
    ]


def _row(name: str, how: Way, times: int, seconds: tuple[float, ...]) -> Outages:
    names = ("answered_median_s", "answered_max_s", "longest_wait_s", "ready_median_s", "ready_max_s")
    return Outages(name=name, how=how, times=times, **dict(zip(names, seconds, strict=True)))
