"""Caches in front of the media origin: what they keep of a medium, a post or an author is purged by its key.

A fetch that was under way when a purge came is stored after it. So one is sent at once, and one when no fetch of before
can be under way any more: only then a cache that shows nothing has nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from schemas.social import limits
from schemas.social.media_origin import MediaOrigin, cache_keys


class MediaCaches:
    """Those of an installation. Raises httpx.HTTPError when one does not answer, or refuses."""

    def __init__(self, http: httpx.Client, origin: MediaOrigin) -> None:
        self._http = http
        #: addresses by the name under which each says what it has: a consumer of every decision
        self.edges: Mapping[str, str] = {f"media_cache-{n}": url for n, url in enumerate(origin.caches)}
        self._key = origin.purge_key

    @property
    def are_there(self) -> bool:
        """Whether there is any."""
        return bool(self.edges)

    def purge(self, object_id: str) -> int:
        """No cache has anything of the object that it had: so many copies. One that does not say it had some."""
        return sum(self.purge_edge(edge, object_id) for edge in self.edges)

    def purge_edge(self, edge: str, object_id: str) -> int:
        """The same of one of them."""
        headers = {"x-purge-key": self._key, "xkey-purge": cache_keys(object_id)}
        answer = self._http.request("PURGE", f"{self.edges[edge]}/", headers=headers).raise_for_status()
        return int(answer.headers.get("x-purged") or 1)

    def may_fill(self, age_s: float) -> bool:
        """Whether a fetch from before a decision of this age may still be stored by one of them."""
        return self.are_there and age_s < limits.MEDIA_CACHE_FETCH_S + limits.MEDIA_CACHE_SLACK_S
