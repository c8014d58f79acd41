"""Whether the media origin still shows a medium: every URL that was good under its access versions is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import httpx

from schemas.media_origin import MediaOrigin
from schemas.social import limits

_GONE: Final = 404


def shown_version(
    http: httpx.Client, origin: MediaOrigin, media_id: str, newest: int, names: Iterable[str], signed_until: int
) -> int | None:
    """The newest version under which it is answered, without a signature or with one; None where it is gone.

    Asks for ``newest`` and ``PROPAGATION_VERSIONS`` before it. Raises httpx.HTTPError.
    """
    for version in range(newest, max(0, newest - limits.PROPAGATION_VERSIONS - 1), -1):
        for name in names:
            for expires in (None, signed_until):
                with http.stream("GET", origin.view_url(media_id, version, name, expires)) as answer:
                    if answer.status_code != _GONE:
                        return version
    return None
