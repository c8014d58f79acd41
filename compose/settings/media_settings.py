"""Where the bytes of media lie, what is in front of them, and who looks at them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings

from compose.stack import varnish
from schemas.social.media_origin import Bucket
from vault import limits


class MediaSettings(BaseSettings):
    """What an operator may set about media."""

    #: where the bytes of media lie; otherwise in the home. All processes of the origin and of the ingress share it
    media_folder: Path | None = None
    #: s3://bucket/prefix: the bytes of media lie there, and media_folder holds what is under way; the endpoint is that
    #: of the region unless it is set
    media_bucket: str | None = Field(default=None, pattern=r"^s3://[a-z0-9][a-z0-9.-]+(/[\w.-]+)*$")
    media_bucket_endpoint: str = Field(default="", pattern=r"^(https?://\S+)?$")
    media_bucket_region: str = "us-east-1"
    media_bucket_key_id: str = ""
    media_bucket_key: SecretStr | None = None
    #: a cache in front of the media origin, Varnish with varnish-modules; "auto": where they are installed and all
    #: servers are the stack's own
    media_cache: Literal["auto", "none", "varnish"] = "auto"
    media_cache_port: int | None = Field(default=None, ge=1, le=65_535)
    #: what URLs of media are signed with; otherwise made in the home
    media_urls_secret: SecretStr | None = Field(default=None, min_length=limits.VAULT_SECRET_LENGTH_MIN)
    #: host and port of clamd, which then scans media too
    clamd: str | None = Field(default=None, pattern=r"^[^:]+:\d+$")

    def preferred_cache_port(self, *, may: bool) -> dict[str, int]:
        """The port of a cache that was asked for, or ``may`` be there and is installed; none where there is none."""
        return varnish.PORT if self.media_cache == "varnish" or (may and varnish.is_installed()) else {}

    def bucket(self) -> Bucket | None:
        """The bucket of media; None where they lie in the folder."""
        if self.media_bucket is None:
            return None
        return Bucket(
            url=self.media_bucket,
            endpoint=self.media_bucket_endpoint,
            region=self.media_bucket_region,
            key_id=self.media_bucket_key_id,
            key=self.media_bucket_key.get_secret_value() if self.media_bucket_key else "",
        )
