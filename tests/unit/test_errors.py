"""The error tree: drawn once in the module's docstring, one stable code per kind of error, a message that helps."""

from __future__ import annotations

import re
from itertools import takewhile

from schemas import errors
from tests.each import each

# Callers see these as the error above them: which dependency was slow is the operator's business.
INHERIT_THEIR_CODE = {"DependencyTimeout"}


def subclasses(cls: type[errors.PlatformError]) -> set[type[errors.PlatformError]]:
    found = {c for c in cls.__subclasses__() if c.__module__ == errors.__name__}
    return found | {s for c in found for s in subclasses(c)}


CLASSES = sorted({errors.PlatformError, *subclasses(errors.PlatformError)}, key=lambda c: c.__name__)


def drawn() -> dict[str, str | None]:
    """Class -> parent as the module docstring draws them: two spaces a level, several leaves to a line."""
    lines = takewhile(str.strip, (errors.__doc__ or "").split("\n\n", 1)[1].splitlines())
    tree: dict[str, str | None] = {}
    above: dict[int, str] = {}
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        names = re.match(r"\s*(\w+(?:  \w+)*)(?:\s{3,}|$)", line)
        assert names, line
        for name in re.findall(r"[A-Z]\w+", names.group(1)):
            tree[name] = above.get(depth - 1)
            above[depth] = name
    return tree


def test_the_drawn_tree_is_the_tree() -> None:
    actual = {c.__name__: c.__base__.__name__ if c is not errors.PlatformError else None for c in CLASSES}
    assert drawn() == actual


def test_every_kind_of_error_has_a_code_of_its_own() -> None:
    owners = [c for c in CLASSES if c.__name__ not in INHERIT_THEIR_CODE]
    codes = [c.__dict__["code"] for c in owners]
    assert len(set(codes)) == len(codes)
    for cls in owners:
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        assert cls.code in (snake, "internal_error"), "a code is the class name: nobody has to look it up"


@each("cls", CLASSES)
def test_every_class_says_in_one_sentence_what_is_wrong(cls: type[errors.PlatformError]) -> None:
    first = (cls.__doc__ or "").splitlines()[0]
    assert re.fullmatch(r"[A-Z].*\.", first)
    made = cls([]) if issubclass(cls, errors.InvalidCommand) else cls()
    assert (made.public, str(made)) == (first, first)


@each("cls", CLASSES)
def test_only_passing_failures_may_be_tried_again(cls: type[errors.PlatformError]) -> None:
    """A refusal, a corrupt record and a broken invariant stay what they are however often they are tried."""
    passing = issubclass(cls, errors.Unavailable) or cls in (errors.QuotaExceeded, errors.RequestTimeout)
    assert cls.retry == ("same_identity" if passing else "never")


def test_what_the_caller_sees_is_apart_from_what_the_operator_sees() -> None:
    error = errors.UndecodableRecord("The record ends early.", topic="commands.payments.v1", offset=7)
    assert str(error) == "The record ends early."
    assert error.context == {"topic": "commands.payments.v1", "offset": 7}


def test_an_invalid_command_names_its_fields() -> None:
    wrong = [{"field": "payload.amount", "reason": "is required"}]
    assert errors.InvalidCommand(wrong).errors == wrong


def test_a_dependency_says_its_mode() -> None:
    assert errors.Unavailable().mode == "fail_closed"
    assert errors.DependencyTimeout(mode="stale").mode == "stale"
