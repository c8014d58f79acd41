"""Admission of users' commands: the user exists, and writes of a post name its version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from ingress.commands.admission import Admission, Json, Signals
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.commands.envelope import Request
    from ingress.http.answers import Answer
    from ingress.identity.caller import Caller
    from ingress.social.media.uploads import Uploads
    from ingress.social.sealed_texts import SealedTexts
    from ingress.social.users import Users

_ERASURE: Final = "erase_user"
_VERSIONED: Final = frozenset({"edit_post", "delete_post"})


class SocialAdmission(Admission):
    """Asks for the user once a call, whatever the number of its commands."""

    def __init__(self, users: Users, uploads: Uploads, texts: SealedTexts) -> None:
        self._users = users
        self._uploads = uploads
        self._texts = texts

    async def refusals(self, caller: Caller, requests: Sequence[Request]) -> list[errors.PlatformError | None]:
        """A version that is not said is a refusal. Raises Forbidden and Gone: an erased user gets no stored answer.

        But that of its erasure: who did not hear it may ask again.
        """
        is_erasing = all(request.operation.name == _ERASURE for request in requests)
        await self._users.present(caller, erased_too=is_erasing)
        return [_refusal(request) for request in requests]

    async def require_caller(self, caller: Caller) -> None:
        """A user exists from its first call on, whatever that says; an erased one calls no more. Raises Gone."""
        await self._users.present(caller)

    async def require_reads(self, caller: Caller) -> None:
        """An erased user reads nothing, whatever it asks for. Raises Gone."""
        if caller.principal.startswith("user:"):
            await self._users.present(caller)

    def gathers(self, requests: Sequence[Request]) -> bool:
        """Where an upload ends, its parts are put together before the command is sent."""
        return any(self._uploads.are_completed(request) for request in requests)

    async def signals(self, caller: Caller, requests: Sequence[Request]) -> list[Signals | None]:
        """What came of putting parts together; texts under their user's key."""
        return [await self._signals(caller, request) for request in requests]

    async def _signals(self, caller: Caller, request: Request) -> Signals | None:
        if self._uploads.are_completed(request):
            return {"assembled": await self._uploads.assembled(caller.user, request)}
        return await self._texts.sealed(caller.user, request)

    async def travelling(self, caller: Caller, requests: Sequence[Request]) -> list[Json]:
        """Payloads without their texts."""
        del caller
        return [self._texts.travelling(request) for request in requests]

    async def shown(
        self, caller: Caller, requests: Sequence[Request | None], answers: Sequence[Answer]
    ) -> list[Answer]:
        """Uploads with the URLs of their parts, results with their texts: for who sends the command."""
        return [await self._shown(caller, request, answer) for request, answer in zip(requests, answers, strict=True)]

    async def _shown(self, caller: Caller, request: Request | None, answer: Answer) -> Answer:
        if answer.code is not None or answer.pending is not None:
            return answer
        body = answer.body if request is None else self._uploads.shown(request, answer.body)
        return structs.replace(answer, body=await self._texts.opened(caller.user, body))


def _refusal(request: Request) -> errors.PlatformError | None:
    if request.operation.name in _VERSIONED and request.expected_version is None:
        return errors.VersionRequired()
    return None
