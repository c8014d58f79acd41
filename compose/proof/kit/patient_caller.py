"""A careful client of the API: what gets no answer is asked again, with its identity."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import httpx

from ingress import limits

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
_POLL_S: Final = 0.1
_PAUSE_S: Final = 0.5
_ACCEPTED: Final = 202
#: what says that nothing is known yet: the same identity may ask again
_AGAIN: Final = frozenset({429, 502, 503, 504})


class CallRefused(Exception):
    """A call was refused that must not be, or the other way round."""


class NotInTime(Exception):
    """Something did not become what it must be, or nobody answered."""


class PatientCaller:
    """Whoever holds one token. Safe to use in one thread at a time; many may share the connections.

    ``persist_s``: how long a call goes on that gets no answer, 0 for not at all; ``wait_s``: until something is so.
    """

    def __init__(self, http: httpx.Client, token: str, *, persist_s: float, wait_s: float) -> None:
        self._http, self._persist_s, self._wait_s = http, persist_s, max(persist_s, wait_s)
        self._auth = {"Authorization": f"Bearer {token}", "Prefer": f"wait={limits.RESULT_WAIT_MAX_S}"}

    def get(self, path: str, **params: Any) -> httpx.Response:
        """The answer to a read."""
        return self.persistently(lambda: self._http.get(path, params=params or None, headers=self._auth))

    def send(self, method: str, path: str, payload: Json | None = None, version: int | None = None) -> httpx.Response:
        """The decision about a command, whatever became of its first answers."""
        headers = self._auth | {"Idempotency-Key": uuid.uuid4().hex}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        body = None if method == "DELETE" else payload or {}
        return self.persistently(lambda: self._http.request(method, path, json=body, headers=headers))

    def hand_in(self, path: str, content: str, content_type: str) -> httpx.Response:
        """The answer to what is taken and not decided, such as usage: 202 is the end of it."""
        headers = self._auth | {"Content-Type": content_type}
        return self.persistently(lambda: self._http.post(path, content=content, headers=headers), taken=True)

    def do(self, method: str, path: str, payload: Json | None = None, version: int | None = None) -> Json:
        """The result of a command. Raises CallRefused."""
        answer = self.send(method, path, payload, version)
        if answer.is_error:
            raise CallRefused(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        result: Json = answer.json()["result"]
        return result

    def read(self, path: str, **params: Any) -> Json:
        """What is read. Raises CallRefused."""
        answer = self.get(path, **params)
        if answer.is_error:
            raise CallRefused(f"GET {path}: {answer.status_code} {answer.text[:300]}")
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

    def becomes(self, what: str, read: Callable[[], object], wanted: object) -> None:
        """Waits until it is so. Raises NotInTime."""
        until = time.monotonic() + self._wait_s
        while (found := read()) != wanted:
            if time.monotonic() > until:
                raise NotInTime(f"{what} is {found!r}, must be {wanted!r}")
            time.sleep(_POLL_S)

    def persistently(self, call: Callable[[], httpx.Response], *, taken: bool = False) -> httpx.Response:
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
                if answer.status_code not in _AGAIN and (taken or answer.status_code != _ACCEPTED):
                    return answer
                said = f"{answer.status_code} {answer.text[:300]}"
            if time.monotonic() > until:
                raise NotInTime(f"no answer in time: {said}")
            time.sleep(_PAUSE_S)
