"""Commands of one's own profile. What hides posts is one row: the next read obeys it."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from dataflows.owner.service import Committed
from dataflows.social.asking import Asking
from dataflows.social.batch import SocialBatch
from dataflows.social.domain.records import Author, rendered_user
from dataflows.social.handler import Handler, Payload, committed
from schemas.records import Command, Rejection
from schemas.refusals import stale


def _asks(asking: Asking, user: str, payload: Payload) -> None:
    del payload
    asking.lock(user)


def _change(batch: SocialBatch, caller: Author, command: Command, now: int) -> Committed | Rejection:
    if refused := stale(command.expected_version, caller.version):
        return refused
    name, is_private = command.payload["display_name"], command.payload["is_private"]
    after = structs.replace(
        caller,
        display_name=caller.display_name if name is None else str(name),
        is_private=caller.is_private if is_private is None else bool(is_private),
        version=caller.version + 1,
        updated_at=now,
    )
    batch.authors.put(after)
    state = "private" if after.is_private else "open"
    return committed(rendered_user(after), caller, "profile_changed", state=state)


HANDLERS: Final[dict[str, Handler]] = {"change_profile": Handler(_asks, _change)}
