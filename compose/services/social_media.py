"""Wires one process of the media origin. Several may listen on the same port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import uvloop

from compose.services.ops import asked_on, serve_ops, turning
from compose.stack.ports import LOOPBACK
from ingress.social.media.origin import Origin
from ingress.social.media.origin_server import serve

if TYPE_CHECKING:
    from compose.settings.settings import Settings

ROLE: Final = "millrace_social_media"


def run(settings: Settings, instance: int) -> None:  # noqa: ARG001 - every instance is alike
    """Serves until SIGTERM."""
    uvloop.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    addresses = settings.addresses()
    origin = Origin(addresses.postgres_dsns[ROLE], settings.media_origin())
    loop = asyncio.get_running_loop()
    await serve(
        origin,
        LOOPBACK,
        addresses.media_port,
        started=lambda: serve_ops(None, asked_on(loop, origin.why_not_ready), alive=turning(loop)),
    )
