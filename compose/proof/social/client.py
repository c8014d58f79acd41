"""A user of social posts."""

from __future__ import annotations

import hashlib
import io
import random
from typing import TYPE_CHECKING, Any, Final

import httpx
from PIL import Image

from compose.proof import limits as proof_limits
from compose.proof.kit.patient_caller import CallRefused, Json, PatientCaller
from ingress.identity.issuer import SCOPES_OF_USERS, issue_token
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from ingress.identity.issuer import KeyFolder

_SIDE: Final = 64


class SocialClient(PatientCaller):
    """One user with a token."""

    def __init__(
        self, http: httpx.Client, keys: KeyFolder, name: str, scopes: Iterable[str] = (), persist_s: float = 0
    ) -> None:
        self.name = name
        token = issue_token(keys, name, (*SCOPES_OF_USERS, *scopes), kind="user", ttl_s=limits.TOKEN_TTL_MAX_S)
        super().__init__(http, token, persist_s=persist_s, wait_s=proof_limits.DEMO_SOCIAL_WAIT_S)

    def fetch(self, url: str) -> int:
        """The status of a URL of the media origin."""
        return self.persistently(
            lambda: httpx.get(url, timeout=proof_limits.DEMO_ACT_WAIT_S, trust_env=False)
        ).status_code

    def ids(self, path: str, **params: Any) -> list[str]:
        """The posts of a list."""
        return [post["post_id"] for post in self.walk(path, **params)]

    @property
    def home(self) -> list[str]:
        """The posts of one's home."""
        return self.ids("/v1/timelines/home")

    def listen(self, path: str, after: str) -> AbstractContextManager[httpx.Response]:
        """A stream of events, from behind the event with that id on."""
        return self._http.stream("GET", path, headers=self._auth | ({"Last-Event-ID": after} if after else {}))

    def post(self, text: str, **fields: Any) -> Json:
        """A new post."""
        return self.do("POST", "/v1/posts", {"text": text} | fields)

    def upload(self, data: bytes | None = None) -> str:
        """The id of a medium that is ready: these bytes, or a picture that nobody has seen."""
        data = data or picture()
        said = {"mime": "image/png", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        media = self.do("POST", "/v1/media/uploads", said)
        path, url = f"/v1/media/uploads/{media['media_id']}", media["parts"][0]["url"]
        put = self.persistently(
            lambda: httpx.put(url, content=data, timeout=proof_limits.DEMO_ACT_WAIT_S, trust_env=False)
        )
        if put.is_error:
            raise CallRefused(f"PUT of a part: {put.status_code} {put.text[:300]}")
        self.do("POST", f"{path}/complete")
        self.becomes("the scan", lambda: self.read(path)["scan_state"], "ready")
        return str(media["media_id"])


def picture() -> bytes:
    """A PNG that nobody has seen."""
    image = Image.frombytes("RGB", (_SIDE, _SIDE), random.randbytes(3 * _SIDE * _SIDE))
    made = io.BytesIO()
    image.save(made, "PNG")
    return made.getvalue()
