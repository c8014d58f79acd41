"""Joins the statements of several partitions into one transaction: each text is sent once, for the rows of all.

A workspace gives its statements in the order of its service, so any two texts have the same order in all of them. Only
statements whose parameters are columns, counts or equal texts are joined; one with a number of its own stays apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataflows.owner.batch import Statement
from sinks.postgres.arrays import Column, Count


def joined(lists: Sequence[Sequence[Statement]]) -> tuple[list[Statement], list[list[int]]]:
    """The statements of all lists, in an order that keeps each list's own, and the places of each list's statements."""
    if len(lists) == 1:
        return list(lists[0]), [list(range(len(lists[0])))]
    groups: list[list[tuple[int, int, Any]]] = []  # of equal statements: list, place in it, parameters
    texts: list[str] = []
    for number, statements in enumerate(lists):
        at = 0  # among the groups, behind the previous statement
        for place, (text, parameters) in enumerate(statements):
            found = _group(texts, groups, text, parameters, at)
            if found is None:
                texts.insert(at, text)
                groups.insert(at, [])
                found = at
            groups[found].append((number, place, parameters))
            at = found + 1
    places = [[0] * len(statements) for statements in lists]
    for n, members in enumerate(groups):
        for number, place, _ in members:
            places[number][place] = n
    return [(text, _parameters([m[2] for m in g])) for text, g in zip(texts, groups, strict=True)], places


def _group(
    texts: list[str], groups: list[list[tuple[int, int, Any]]], text: str, parameters: Any, at: int
) -> int | None:
    for n in range(at, len(texts)):
        if texts[n] == text and _fits(groups[n][0][2], parameters):
            return n
    return None


def _fits(one: Any, other: Any) -> bool:
    """Whether one statement can do the work of both."""
    if not one or not other:
        return not one and not other
    return all(
        type(a) is type(b) and (isinstance(a, Column | Count) or (isinstance(a, str) and a == b))
        for a, b in zip(one, other, strict=True)
    )


def _parameters(members: Sequence[Any]) -> Any:
    first, *others = members
    if not others or not first:
        return first
    found: list[Any] = []
    for column, *further in zip(first, *others, strict=True):
        if isinstance(column, Column):
            found.append(column.joined(further))
        else:
            found.append(Count(column + sum(further)) if isinstance(column, Count) else column)
    return tuple(found)
