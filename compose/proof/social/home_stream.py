"""The stream of one home, of a reader that loses its connection with everything that it hears."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import httpx

from compose.proof.kit.patient_caller import CallRefused

if TYPE_CHECKING:
    from compose.proof.social.client import SocialClient

_PATH: Final = "/v1/timelines/home/stream"


class HomeStream:
    """It goes on with the id that it heard last. ``told``: every post that it ever told.

    A stream that is opened first tells what comes from then on.
    """

    def __init__(self, user: SocialClient) -> None:
        self.told: set[str] = set()
        self._user = user
        self._place = ""
        self._heard: str | None = None

    def look(self) -> list[str]:
        """What it tells until nothing is new, each post by a connection of its own. Raises NotInTime, CallRefused."""
        found = []
        while (post_id := self._next()) is not None:
            found.append(post_id)
        self.told.update(found)
        return found

    def _next(self) -> str | None:
        """The next post; None when there is none by now."""
        answer = self._user.persistently(self._once)
        if answer.is_error:
            raise CallRefused(f"GET {_PATH}: {answer.status_code} {answer.text[:300]}")
        return self._heard

    def _once(self) -> httpx.Response:
        """One connection, until it has told a post or said that it is alive; one that ends before is asked again."""
        with self._user.listen(_PATH, self._place) as answer:
            if answer.is_error:
                answer.read()
                return answer
            for line in answer.iter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    self._place = value
                elif name == "data":
                    self._heard = str(json.loads(value)["post_id"])
                    return answer
                elif value == "alive":
                    self._heard = None
                    return answer
        raise httpx.RemoteProtocolError("the stream ended before it said anything")
