"""What is published, from where a process that has no database reads it: an ingress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import httpx

from schemas.errors import Unavailable
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable

PATH: Final = "/v1/policy_snapshots/newest"
_OK, _NOT_MODIFIED, _UNAUTHENTICATED = 200, 304, 401


class PublishedOverHttp:
    """The newest snapshot as an ingress tells it to who may read it, proven by ``token``. ``close`` in the end.

    ``on_refusal`` hears that the token was refused: the next one should be another.
    """

    def __init__(
        self, base_url: str, token: Callable[[], str], on_refusal: Callable[[], object] = lambda: None
    ) -> None:
        self._client = httpx.AsyncClient(base_url=base_url, timeout=limits.POLICIES_READ_TIMEOUT_S, trust_env=False)
        self._token = token
        self._on_refusal = on_refusal

    async def newer(self, known: str, wait_s: int) -> tuple[str, bytes] | None:
        """As ``limiter.policy.follower.Published``; the tag is that of HTTP (RFC 9110, 8.8.3)."""
        headers = {"Authorization": f"Bearer {self._token()}", "If-None-Match": known}
        if wait_s:
            headers["Prefer"] = f"wait={wait_s}"
        try:
            answer = await self._client.get(PATH, headers=headers)
        except httpx.HTTPError as error:
            raise Unavailable(f"The ingress does not answer: {type(error).__name__}.") from error
        if answer.status_code == _NOT_MODIFIED:
            return None
        if answer.status_code == _UNAUTHENTICATED:
            self._on_refusal()
        if answer.status_code != _OK:
            raise Unavailable(f"The ingress answers with {answer.status_code}.")
        return answer.headers.get("etag", ""), answer.content

    async def close(self) -> None:
        """Disconnects."""
        await self._client.aclose()
