"""A user of social posts, as a careful client: what gets no answer is asked again, with its identity."""

from __future__ import annotations

import hashlib
import io
import random
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import httpx
from PIL import Image

from ingress.identity.issuer import SCOPES_OF_USERS, issue_token
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ingress.identity.issuer import KeyFolder

Json = dict[str, Any]
_POLL_S: Final = 0.1
_PAUSE_S: Final = 0.5
_SIDE: Final = 64
_ACCEPTED: Final = 202
#: what says that nothing is known yet: the same identity may ask again
_AGAIN: Final = frozenset({429, 502, 503, 504})


class SocialRefused(Exception):
    """A call was refused that must not be, or the other way round."""


class NotInTime(Exception):
    """Something did not become what it must be, or nobody answered."""


class SocialClient:
    """One user with a token. Safe to use in one thread at a time; many may share the connections."""

    def __init__(
        self, http: httpx.Client, keys: KeyFolder, name: str, scopes: Iterable[str] = (), persist_s: float = 0
    ) -> None:
        self.name = name
        self._http, self._persist_s = http, persist_s
        said = (*SCOPES_OF_USERS, *scopes)
        token = issue_token(keys, name, said, kind="user", ttl_s=limits.TOKEN_TTL_MAX_S)
        self._auth = {"Authorization": f"Bearer {token}", "Prefer": f"wait={limits.RESULT_WAIT_MAX_S}"}

    def get(self, path: str, **params: Any) -> httpx.Response:
        """The answer to a read."""
        return self._persistently(lambda: self._http.get(path, params=params or None, headers=self._auth))

    def send(self, method: str, path: str, payload: Json | None = None, version: int | None = None) -> httpx.Response:
        """The decision about a command, whatever became of its first answers."""
        headers = self._auth | {"Idempotency-Key": uuid.uuid4().hex}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        body = None if method == "DELETE" else payload or {}
        return self._persistently(lambda: self._http.request(method, path, json=body, headers=headers))

    def fetch(self, url: str) -> int:
        """The status of a URL of the media origin."""
        return self._persistently(lambda: httpx.get(url, timeout=limits.DEMO_ACT_WAIT_S, trust_env=False)).status_code

    def do(self, method: str, path: str, payload: Json | None = None, version: int | None = None) -> Json:
        """The result of a command. Raises SocialRefused."""
        answer = self.send(method, path, payload, version)
        if answer.is_error:
            raise SocialRefused(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        result: Json = answer.json()["result"]
        return result

    def read(self, path: str, **params: Any) -> Json:
        """What is read. Raises SocialRefused."""
        answer = self.get(path, **params)
        if answer.is_error:
            raise SocialRefused(f"GET {path}: {answer.status_code} {answer.text[:300]}")
        found: Json = answer.json()
        return found

    def walk(self, path: str, **params: Any) -> list[Json]:
        """All of a list, by its cursors."""
        found: list[Json] = []
        while True:
            page = self.read(path, limit=limits.PAGE_LIMIT_MAX, **params)
            found += page["data"]
            if not page["has_more"]:
                return found
            params["cursor"] = page["next_cursor"]

    def ids(self, path: str, **params: Any) -> list[str]:
        """The posts of a list."""
        return [post["post_id"] for post in self.walk(path, **params)]

    @property
    def home(self) -> list[str]:
        """The posts of one's home."""
        return self.ids("/v1/timelines/home")

    def post(self, text: str, **fields: Any) -> Json:
        """A new post."""
        return self.do("POST", "/v1/posts", {"text": text} | fields)

    def upload(self, data: bytes | None = None) -> str:
        """The id of a medium that is ready: these bytes, or a picture that nobody has seen."""
        data = data or picture()
        said = {"mime": "image/png", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        media = self.do("POST", "/v1/media/uploads", said)
        path, url = f"/v1/media/uploads/{media['media_id']}", media["parts"][0]["url"]
        put = self._persistently(lambda: httpx.put(url, content=data, timeout=limits.DEMO_ACT_WAIT_S, trust_env=False))
        if put.is_error:
            raise SocialRefused(f"PUT of a part: {put.status_code} {put.text[:300]}")
        self.do("POST", f"{path}/complete")
        self.becomes("the scan", lambda: self.read(path)["scan_state"], "ready")
        return str(media["media_id"])

    def becomes(self, what: str, read: Callable[[], object], wanted: object) -> None:
        """Waits until it is so. Raises NotInTime."""
        until = time.monotonic() + max(self._persist_s, limits.DEMO_SOCIAL_WAIT_S)
        while (found := read()) != wanted:
            if time.monotonic() > until:
                raise NotInTime(f"{what} is {found!r}, must be {wanted!r}")
            time.sleep(_POLL_S)

    def _persistently(self, call: Callable[[], httpx.Response]) -> httpx.Response:
        """The answer of a server that could give one. Raises NotInTime, or httpx' errors where there is no patience."""
        until = time.monotonic() + self._persist_s
        while True:
            try:
                answer = call()
            except httpx.TransportError:
                if not self._persist_s:
                    raise
                said = "nobody answers"
            else:
                if answer.status_code not in _AGAIN and answer.status_code != _ACCEPTED:
                    return answer
                said = f"{answer.status_code} {answer.text[:300]}"
            if time.monotonic() > until:
                raise NotInTime(f"no answer in time: {said}")
            time.sleep(_PAUSE_S)


def picture() -> bytes:
    """A PNG that nobody has seen."""
    image = Image.frombytes("RGB", (_SIDE, _SIDE), random.randbytes(3 * _SIDE * _SIDE))
    made = io.BytesIO()
    image.save(made, "PNG")
    return made.getvalue()
