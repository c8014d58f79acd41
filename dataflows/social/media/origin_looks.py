"""Whether the media origin still shows a medium: URLs that were good under its access versions are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import httpx

from schemas.social import limits
from schemas.social.media_origin import MediaOrigin

_GONE: Final = 404


def looking_client() -> httpx.Client:
    """Who asks the origin and caches. It lets idle connections go before a cache does, or a look fails for nothing."""
    idle = httpx.Limits(keepalive_expiry=limits.PROPAGATION_IDLE_S)
    return httpx.Client(timeout=limits.PROPAGATION_FETCH_S, limits=idle, trust_env=False)


def urls_of(
    origin: MediaOrigin,
    media_id: str,
    newest: int,
    names: Sequence[str],
    signed_until: int,
    *,
    is_every_one: bool = True,
) -> Iterator[tuple[int, str]]:
    """Version and URL under ``newest`` and ``PROPAGATION_VERSIONS`` before it, without a signature and with one.

    Otherwise the newest signed one alone, which the origin answers if it answers any.
    """
    if not is_every_one:
        if names:
            yield newest, origin.view_url(media_id, newest, names[0], signed_until)
        return
    for version in range(newest, max(0, newest - limits.PROPAGATION_VERSIONS - 1), -1):
        for name in names:
            yield version, origin.view_url(media_id, version, name, None)
            yield version, origin.view_url(media_id, version, name, signed_until)


def first_shown(http: httpx.Client, urls: Iterable[tuple[int, str]]) -> int | None:
    """The version under which one of these is answered; None where all are gone. Raises httpx.HTTPError."""
    for version, url in urls:
        with http.stream("GET", url) as answer:
            if answer.status_code != _GONE:
                return version
    return None
