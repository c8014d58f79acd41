"""Acts beside the others: their steps in order, and one that fails ends its act alone."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from compose.proof.demo.beside import beside, take
from compose.proof.kit.patient_caller import NotInTime


@dataclass
class Came:
    steps: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def first() -> None:
    """Is taken."""


def second() -> None:
    raise NotInTime("nobody came")


def third() -> None:
    raise AssertionError("it is not taken after one that failed")


def test_a_step_that_fails_is_a_problem_and_the_last_one() -> None:
    play = Came()
    take((first, second, third), play, "posts")
    assert (play.steps, play.problems) == (["first"], ["posts: second: nobody came"])


def test_an_act_plays_while_the_block_goes_on() -> None:
    goes_on = threading.Event()
    with beside("act", lambda: goes_on.wait(30)) as came:
        goes_on.set()
        assert came()
