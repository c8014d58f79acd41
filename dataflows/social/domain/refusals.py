"""The refusals of commands. A hidden post or user and one that does not exist are refused alike."""

from __future__ import annotations

from typing import Final

from schemas.records import Rejection
from schemas.refusals import state_conflict, wrong_value

NO_POST: Final = Rejection("not_found", "There is no such post.", {})
NO_USER: Final = Rejection("not_found", "There is no such user.", {})
NO_CALLER: Final = Rejection("forbidden", "The command is not one of a user who may write.", {})
SUSPENDED: Final = Rejection(
    "forbidden", "Moderators suspended the account; an appeal may be made: its notifications name the decision.", {}
)
NO_REQUEST: Final = Rejection("not_found", "There is no such request.", {})
ONESELF: Final = wrong_value("user_id", "must be another user")
DELETED: Final = Rejection("gone", "The post is deleted.", {})
TAKEN_DOWN: Final = state_conflict("taken_down", "Moderators took the post down: it brings nothing back that shows it.")
ERASED: Final = Rejection("gone", "The user was erased.", {})


def version_required() -> Rejection:
    """The refusal of a write of a post that names no version."""
    return Rejection("version_required", "Say which version is meant.", {})


def not_public(field: str) -> Rejection:
    """The refusal to quote or repost what not all users may see."""
    return wrong_value(field, "must be a public post")


NOTHING_LEFT: Final = wrong_value("payload.text", "must say something without media")
