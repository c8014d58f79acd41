"""Caches in front of the media origin: what they keep of a medium is purged by its key.

A fetch that was under way when a purge came is stored after it. So one is sent at once, and one when no fetch of before
can be under way any more: only then a cache that shows nothing has nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from schemas.media_origin import MediaOrigin, media_key
from schemas.social import limits


class MediaCaches:
    """Those of an installation. Raises httpx.HTTPError when one does not answer, or refuses."""

    def __init__(self, http: httpx.Client, origin: MediaOrigin) -> None:
        self._http = http
        self._urls: Sequence[str] = origin.caches
        self._key = origin.purge_key

    def purge(self, media_id: str) -> None:
        """No cache has anything of the medium that it had."""
        for url in self._urls:
            headers = {"x-purge-key": self._key, "xkey-purge": media_key(media_id)}
            self._http.request("PURGE", f"{url}/", headers=headers).raise_for_status()

    def may_fill(self, age_s: float) -> bool:
        """Whether a fetch from before a decision of this age may still be stored by one of them."""
        return bool(self._urls) and age_s < limits.MEDIA_CACHE_FETCH_S + limits.MEDIA_CACHE_SLACK_S
