"""The declaration of a service's console pages. The console itself knows no service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter

if TYPE_CHECKING:
    from ingress.http.parts import Parts
    from ingress.identity.caller import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An entry of the navigation. ``g`` and the key go there; it is marked on every page below ``under``."""

    key: str
    path: str
    name: str
    under: str


def place(key: str, path: str, name: str, under: str = "") -> Place:
    """A place that is marked on its own page and those below it, or on those below ``under``."""
    return Place(key=key, path=path, name=name, under=under or path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guests:
    """People who have the pages of one service and no other: what they are called, and the scope that lets them in."""

    name: str
    scope: str
    home: str
    admits: Callable[[Caller], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolePages:
    """The pages of one service. Names of templates and queries are unique over all services."""

    package: str  # whose folders ``templates`` and ``queries`` the pages read
    routers: Sequence[APIRouter]
    places: Sequence[Place]
    guests: Guests | None = None  # whose navigation has these places alone
    staff_places: Sequence[Place] = ()  # of staff, where the others are guests'
    searches: bool = False  # it answers the search of the header
    oldest: str = ""  # a query of its oldest open things, for the page of the pipeline: stage, oldest
    warning: Callable[[Parts], str] | None = None  # what every page says now; "" for nothing
