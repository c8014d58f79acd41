"""Acts that play beside the others, on the same stack: they wait more than they work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

import httpx

from compose.proof.kit.patient_caller import CallRefused, NotInTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Came = TypeVar("Came")


class Play(Protocol):
    """What an act came to: the steps that were taken, and what was not as it must be."""

    steps: list[str]
    problems: list[str]


@contextmanager
def beside(name: str, act: Callable[[], Came]) -> Iterator[Callable[[], Came]]:
    """Plays the act beside the block, which asks for what came of it."""
    with ThreadPoolExecutor(1, thread_name_prefix=name) as thread:
        yield thread.submit(act).result


def take(steps: Iterable[Callable[[], object]], play: Play, about: str) -> None:
    """Takes the steps in their order; one that fails is a problem of the play, and its last step."""
    for step in steps:
        try:
            step()
        except (httpx.HTTPError, CallRefused, NotInTime) as error:
            play.problems.append(f"{about}: {step.__name__}: {error}")
            return
        play.steps.append(step.__name__)
