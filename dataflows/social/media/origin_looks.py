"""Whether the media origin still shows a medium: URLs that were good under its access versions are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import httpx

from schemas.media_origin import MediaOrigin
from schemas.social import limits

_GONE: Final = 404


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

    Otherwise those that may differ from each other: the newest signed one, which the origin answers if it answers any,
    and the older ones that a cache may have a copy of.
    """
    for version in range(newest, max(0, newest - limits.PROPAGATION_VERSIONS - 1), -1):
        for name in names:
            if is_every_one or (origin.caches and version < newest):
                yield version, origin.view_url(media_id, version, name, None)
            if is_every_one or (version == newest and name == names[0]):
                yield version, origin.view_url(media_id, version, name, signed_until)


def first_shown(http: httpx.Client, urls: Iterable[tuple[int, str]]) -> int | None:
    """The version under which one of these is answered; None where all are gone. Raises httpx.HTTPError."""
    for version, url in urls:
        with http.stream("GET", url) as answer:
            if answer.status_code != _GONE:
                return version
    return None
