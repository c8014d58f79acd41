"""Decides changes of edges. Pure. An edge is never deleted; each change raises its version, which shows old tasks."""

from __future__ import annotations

from msgspec import structs

from dataflows.social.domain import refusals
from dataflows.social.domain.records import Author, Edge
from schemas.records import Rejection


def moved(edge: Edge | None, user_id: str, target_id: str, state: str, now: int) -> Edge:
    """The edge in this state; unchanged if it is in it already."""
    if edge is None:
        return Edge(user_id=user_id, target_id=target_id, state=state, version=1, created_at=now, updated_at=now)
    if edge.state == state:
        return edge
    return structs.replace(edge, state=state, version=edge.version + 1, updated_at=now)


def decide_follow(edge: Edge | None, follower: str, followee: Author, now: int) -> Edge:
    """An active edge, or a request if the other is private. Followers of a user that became private stay."""
    if edge is not None and edge.state == "active":
        return edge
    return moved(edge, follower, followee.user_id, "requested" if followee.is_private else "active", now)


def decide_answer(edge: Edge | None, *, is_accepted: bool, now: int) -> Edge | Rejection:
    """The answered request. The same answer again changes nothing; another answer finds no request."""
    wanted = "active" if is_accepted else "removed"
    if edge is None or edge.state not in {"requested", wanted}:
        return refusals.NO_REQUEST
    return moved(edge, edge.user_id, edge.target_id, wanted, now)


def removed(edge: Edge | None, now: int) -> Edge | None:
    """The edge without effect; None if there was none."""
    return None if edge is None else moved(edge, edge.user_id, edge.target_id, "removed", now)


def never(user_id: str, target_id: str) -> Edge:
    """What the end of an edge that never was is answered with: it is not written down."""
    return Edge(user_id=user_id, target_id=target_id, state="removed", version=0, created_at=0, updated_at=0)


def followers_added(before: Edge | None, after: Edge) -> int:
    """The change of the followee's count of followers."""
    was = before is not None and before.state == "active"
    return int(after.state == "active") - int(was)
