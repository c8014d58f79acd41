"""A table of cases in one test, where pytest would make a test of each: that costs it more than most cases take."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SHOWN_MAX: Final = 1_000
_NoCase: Final = type(pytest.param())
Case = TypeVar("Case")


def each(names: str | tuple[str, ...], cases: Iterable[Case]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As ``pytest.mark.parametrize``: the first case that fails ends the test, and is told in a note of its error.

    For tables of quick and pure cases. Fixtures are made once for all of them, and none may be skipped: that would
    skip those behind it.
    """
    said = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = list(cases)
    assert not any(isinstance(case, _NoCase) for case in cases), "what pytest.param says is lost here"
    rows = [dict(zip(said, case if len(said) > 1 else (case,), strict=True)) for case in cases]  # type: ignore[arg-type]
    assert rows, "a table without a case proves nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def every(**given: Any) -> None:
            for number, row in enumerate(rows, 1):
                try:
                    test(**given, **row)
                except BaseException as error:
                    told = ", ".join(f"{name}={value!r:.{_SHOWN_MAX}}" for name, value in row.items())
                    error.add_note(f"case {number} of {len(rows)}: {told}")
                    raise

        whole = inspect.signature(test)
        rest = [parameter for name, parameter in whole.parameters.items() if name not in said]
        assert len(rest) + len(said) == len(whole.parameters), f"{test.__name__} does not take {said}"
        every.__signature__ = whole.replace(parameters=rest)  # type: ignore[attr-defined]
        return every

    return decorate
