"""The graph: follows and their requests, blocks, mutes. Each edge is its first user's; its version counts changes."""

from __future__ import annotations

from typing import Final

from schemas import senders
from schemas.fields.validation import Field
from schemas.operation import Operation
from schemas.social.operations import SERVICE_NAME, WRITE, callers_own
from schemas.social.value_types import USER, USER_ID


def _edge(name: str, record: str, method: str, path: str, summary: str, result: str = "CommittedEdge") -> Operation:
    return Operation(
        name=name,
        service=SERVICE_NAME,
        method=method,
        path=path,
        record=record,
        payload={"user_id": Field(USER, "the other user, from the path")},
        summary=summary,
        result=result,
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone", "state_conflict"),
        id_name="user_id",
        id_form=USER_ID,
        path_field="user_id",
        aggregate=callers_own,
    )


_REQUEST: Final = "/v1/follows/requests/{id}"

OPERATIONS: Final = (
    _edge("follow", "Follow", "PUT", "/v1/follows/{id}", "Follow a user, or ask a private one"),
    _edge("unfollow", "Unfollow", "DELETE", "/v1/follows/{id}", "Follow a user no more"),
    _edge("accept_follow", "AcceptFollow", "POST", f"{_REQUEST}/accept", "Let a user follow who asked"),
    _edge("reject_follow", "RejectFollow", "POST", f"{_REQUEST}/reject", "Refuse a user who asked"),
    _edge("block", "Block", "PUT", "/v1/blocks/{id}", "Block a user: neither sees the other", "CommittedBlock"),
    _edge("unblock", "Unblock", "DELETE", "/v1/blocks/{id}", "End a block; no edge comes back", "CommittedBlock"),
    _edge("mute", "Mute", "PUT", "/v1/mutes/{id}", "Keep a user out of home and notifications", "CommittedBlock"),
    _edge("unmute", "Unmute", "DELETE", "/v1/mutes/{id}", "End a mute", "CommittedBlock"),
)
