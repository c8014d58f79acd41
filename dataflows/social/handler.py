"""A command of social posts: what must be read before it is decided, and its decision over what was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dataflows.owner.service import Committed, NewEvent
from dataflows.social.asking import Asking
from dataflows.social.batch import SocialBatch
from dataflows.social.domain.records import Author
from schemas.records import Command, Rejection

_USER: Final = "user:"
Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Handler:
    """Both halves of one operation."""

    asks: Callable[[Asking, str, Payload], None]
    decide: Callable[[SocialBatch, Author, Command, int], Committed | Rejection]


@dataclass(frozen=True, slots=True)
class WorkerHandler:
    """Both halves of an operation of our own workers: its aggregate is a user, and its caller is none."""

    asks: Callable[[Asking, Payload], None]
    decide: Callable[[SocialBatch, Command, int], Committed | Rejection]


def user_of(command: Command) -> str | None:
    """The user who gave the command; None where nobody of ours did."""
    return command.scope.removeprefix(_USER) if command.scope.startswith(_USER) else None


def committed(
    result: dict[str, Any],
    author: Author,
    kind: str,
    *,
    post_id: str | None = None,
    target_id: str | None = None,
    state: str | None = None,
    pushed: bool = False,
) -> Committed:
    """A decision with its one event, which is the user's own."""
    body = {"kind": kind, "post_id": post_id, "target_id": target_id, "state": state, "pushed": pushed}
    return Committed(result, (NewEvent(int(result["version"]), _USER + author.user_id, body),))
