"""Social posts as a service at the boundary: posts, the graph, and what moves when they change."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from schemas.fields.column import Column
from schemas.service import EventType, Service, Worker
from schemas.social import graph_operations, media_operations, moderation_operations, operations, own_data_operations

READ: Final = "posts:read"
MODERATOR: Final = "moderator"


class SocialEventBody(Struct, kw_only=True):
    """What an event says: what happened to what. Never a text, a name, or a reason: events live longer than posts."""

    kind: Annotated[str, Column("what happened, in the past tense")]
    pushed: Annotated[bool, Column("whether fan-out writes it into homes")]
    post_id: Annotated[str | None, Column("the post that it happened to")] = None
    target_id: Annotated[str | None, Column("the other user, medium, decision")] = None
    state: Annotated[str | None, Column("the state afterwards")] = None


OPERATIONS: Final = (
    *operations.OPERATIONS,
    *graph_operations.OPERATIONS,
    *media_operations.OPERATIONS,
    *moderation_operations.OPERATIONS,
    *own_data_operations.OPERATIONS,
)
SERVICE: Final = Service(
    name=operations.SERVICE_NAME,
    code="s",
    doc="users, their posts and edges",
    read_scope=READ,
    owner_role="millrace_social_owner",
    partitions=4,
    operations=OPERATIONS,
    event_types=(
        EventType(
            name="social_post_service_committed",
            record="SocialPostServiceCommitted",
            body=SocialEventBody,
            doc="what a user did",
        ),
    ),
    workers=(
        Worker(
            name="social_fanout",
            module="dataflows.social.fanout.worker",
            role="millrace_social_worker",
            secrets=("homes",),
        ),
        Worker(
            name=moderation_operations.PROPAGATION,
            module="dataflows.social.moderation.propagation",
            role="millrace_social_propagation",
            secrets=("media_urls",),
        ),
        Worker(
            name=own_data_operations.ERASER,
            module="dataflows.social.erasure.eraser",
            role="millrace_social_eraser",
            secrets=("homes", "media_urls"),
        ),
        Worker(name=media_operations.SCANNER, module="dataflows.social.media.scanner", role="millrace_social_scanner"),
    ),
)
