"""What workers of social posts alone need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.social.media_origin import MediaOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class SocialConfig:
    """Plain values, beside those of every worker."""

    media: MediaOrigin  # their bytes and their URLs: signed with b"" where that key is not among the worker's secrets
    homes_url: str = field(default="", repr=False)  # "" where homes are not among the worker's secrets
    clamd: str | None = None  # host and port of a scanner of malware
