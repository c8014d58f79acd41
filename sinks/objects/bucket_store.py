"""Objects in a bucket that speaks S3. What is written is compared there with its SHA-256, too.

A name stands for bytes that were verified before they were sent, so two writers of one name bring the same ones, and
nothing has to be locked. The client gives up an object after a bounded time and number of tries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from schemas.social import limits as social_limits
from schemas.social.media_origin import Bucket
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import S3Config

_LISTED: Final = 1_000


class BucketAway(OSError):
    """The bucket does not answer, or refuses us: nothing is known of the object."""


class BucketStore:
    """One bucket, or what begins with a prefix in it."""

    def __init__(self, bucket: Bucket) -> None:
        config: S3Config = {
            "region": bucket.region,
            "access_key_id": bucket.key_id,
            "secret_access_key": bucket.key,
            "checksum_algorithm": "SHA256",
        }
        if bucket.endpoint:
            config["endpoint"] = bucket.endpoint
        self._store = S3Store.from_url(
            bucket.url,
            config=config,
            client_options={
                "allow_http": bucket.endpoint.startswith("http://"),
                "timeout": timedelta(seconds=sinks_limits.BUCKET_TIMEOUT_S),
                "connect_timeout": timedelta(seconds=sinks_limits.BUCKET_CONNECT_TIMEOUT_S),
            },
            retry_config={
                "max_retries": sinks_limits.BUCKET_RETRIES_MAX,
                "retry_timeout": timedelta(seconds=sinks_limits.BUCKET_TIMEOUT_S),
            },
        )

    def keep(self, key: str, draft: Path) -> None:
        """As the seam says; what is long is sent in parts, and is there when the last one is."""
        with _away():
            if not self.exists(key):
                obstore.put(self._store, key, draft, chunk_size=sinks_limits.BUCKET_PART_BYTES)

    def exists(self, key: str) -> bool:
        """As the seam says."""
        with _away():
            try:
                obstore.head(self._store, key)
            except FileNotFoundError:
                return False
            return True

    def chunks(self, key: str, part: tuple[int, int] | None = None) -> Iterator[bytes]:
        """As the seam says."""
        options: GetOptions | None = None if part is None else {"range": part}
        with _away():
            found = obstore.get(self._store, key, options=options)
            for data in found.stream(min_chunk_size=social_limits.MEDIA_CHUNK_BYTES):
                yield bytes(data)

    def file(self, key: str) -> Path | None:
        """Never: a bucket has no files."""
        del key
        return None

    def delete(self, key: str) -> None:
        """As the seam says."""
        with _away():
            obstore.delete(self._store, key)

    def delete_all(self, keys: Sequence[str]) -> None:
        """As the seam says; a thousand in one request."""
        with _away():
            if keys:
                obstore.delete(self._store, keys)

    def delete_below(self, folder: str) -> None:
        """As the seam says."""
        with _away():
            for found in obstore.list(self._store, f"{folder}/", chunk_size=_LISTED):
                obstore.delete(self._store, [one["path"] for one in found])

    def has_below(self, folder: str) -> bool:
        """As the seam says."""
        with _away():
            return any(obstore.list(self._store, f"{folder}/", chunk_size=1))


@contextmanager
def _away() -> Iterator[None]:
    """The client's errors as the seam's; a missing object stays a FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except BaseError as error:
        raise BucketAway(f"{type(error).__name__}") from error
