"""What social posts alone need of an ingress process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.media_origin import MediaOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class SocialConfig:
    """Plain values, beside those of every service."""

    media: MediaOrigin  # where media are uploaded to and seen
