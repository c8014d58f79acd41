"""What social posts alone need of an ingress process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.social.media_origin import MediaOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class SocialConfig:
    """Plain values, beside those of every service."""

    media: MediaOrigin  # where media are uploaded to and seen
    homes_url: str | None = field(default=None, repr=False)  # None: homes are read from Postgres
