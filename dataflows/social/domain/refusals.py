"""What commands are refused with. A post or user that is hidden and one that is not there are refused alike."""

from __future__ import annotations

from typing import Final

from schemas.records import Rejection
from schemas.refusals import wrong_value

NO_POST: Final = Rejection("not_found", "There is no such post.", {})
NO_USER: Final = Rejection("not_found", "There is no such user.", {})
NO_CALLER: Final = Rejection("forbidden", "The command is not one of a user who may write.", {})
SUSPENDED: Final = Rejection("forbidden", "The account is suspended.", {})
NO_REQUEST: Final = Rejection("not_found", "There is no such request.", {})
ONESELF: Final = wrong_value("user_id", "must be another user")
DELETED: Final = Rejection("gone", "The post is deleted.", {})
ERASED: Final = Rejection("gone", "The user was erased.", {})


def version_required() -> Rejection:
    """A write of a post says which version it is of."""
    return Rejection("version_required", "Say which version is meant.", {})


def not_public(field: str) -> Rejection:
    """Only what all users may see is quoted or reposted."""
    return wrong_value(field, "must be a public post")


NOTHING_LEFT: Final = wrong_value("text", "must not be empty without media")


def media_not_ready(media_ids: list[str]) -> Rejection:
    """Media that are not ready, not the author's own, not known, or in another post."""
    return Rejection("media_not_ready", "Media cannot be attached; see media_ids.", {"media_ids": media_ids})
