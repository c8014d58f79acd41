"""What must hold before a command of a user is sent: the user is there, and writes of a post say which version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from ingress.commands.admission import Admission, Signals
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.commands.envelope import Request
    from ingress.http.answers import Answer
    from ingress.identity.caller import Caller
    from ingress.social.media.uploads import Uploads
    from ingress.social.users import Users

_ERASURE: Final = "erase_user"
_VERSIONED: Final = frozenset({"edit_post", "delete_post"})


class SocialAdmission(Admission):
    """Asks for the user once a call, whatever the number of its commands."""

    def __init__(self, users: Users, uploads: Uploads) -> None:
        self._users = users
        self._uploads = uploads

    async def refusals(self, caller: Caller, requests: Sequence[Request]) -> list[errors.PlatformError | None]:
        """A version that is not said is a refusal. Raises Forbidden and Gone: an erased user gets no stored answer.

        But that of its erasure: who did not hear it may ask again.
        """
        is_erasing = all(request.operation.name == _ERASURE for request in requests)
        await self._users.present(caller, erased_too=is_erasing)
        return [_refusal(request) for request in requests]

    def gathers(self, requests: Sequence[Request]) -> bool:
        """Where an upload ends, its parts are put together before the command is sent."""
        return any(self._uploads.are_completed(request) for request in requests)

    async def signals(self, caller: Caller, requests: Sequence[Request]) -> list[Signals | None]:
        """What came of putting parts together."""
        return [
            {"assembled": await self._uploads.assembled(caller.user, request)}
            if self._uploads.are_completed(request)
            else None
            for request in requests
        ]

    async def shown(
        self, caller: Caller, requests: Sequence[Request | None], answers: Sequence[Answer]
    ) -> list[Answer]:
        """Uploads with the URLs of their parts: for who sends the command."""
        del caller
        return [self._shown(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def _shown(self, request: Request | None, answer: Answer) -> Answer:
        if request is None or answer.code is not None or answer.pending is not None:
            return answer
        return structs.replace(answer, body=self._uploads.shown(request, answer.body))


def _refusal(request: Request) -> errors.PlatformError | None:
    if request.operation.name in _VERSIONED and request.expected_version is None:
        return errors.VersionRequired()
    return None
