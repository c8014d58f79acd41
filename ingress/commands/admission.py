"""What a service adds to its commands before they are sent: why one may not begin, and what the owner should know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import structs

from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ingress.commands.disk_room import DiskRoom
    from ingress.commands.envelope import Request
    from ingress.http.answers import Answer
    from ingress.identity.caller import Caller

#: the query value that asks for a forecast
DRY_RUN: Final = "dry_run"
Signals = dict[str, str]
Json = dict[str, Any]
Answered = TypeVar("Answered")
One = TypeVar("One")


class Admission:
    """Lets every command of its service begin and adds nothing: what a service does that says nothing."""

    async def refusals(self, caller: Caller, requests: Sequence[Request]) -> list[errors.PlatformError | None]:
        """For each request, in order, why it may not begin; None where it may. Raises Unavailable."""
        del caller
        return [None] * len(requests)

    def gathers(self, requests: Sequence[Request]) -> bool:
        """Whether ``signals`` would ask or count anything for these requests: a retry must not be counted for ever."""
        del requests
        return False

    async def signals(self, caller: Caller, requests: Sequence[Request]) -> list[Signals | None]:
        """For each request, in order, what was seen of it that is no part of it. Raises Unavailable."""
        del caller
        return [None] * len(requests)

    async def travelling(self, caller: Caller, requests: Sequence[Request]) -> list[Json]:
        """For each request, in order, its payload as it travels. Raises Unavailable."""
        del caller
        return [request.payload for request in requests]

    async def hashes(self, caller: Caller, requests: Sequence[Request]) -> list[bytes]:
        """For each request, in order, what is stored to tell a retry of it from another request. Raises Unavailable."""
        del caller
        return [request.request_hash for request in requests]

    async def require_reads(self, caller: Caller) -> None:
        """Raises why this caller may not read its events and operations now."""

    async def shown(
        self, caller: Caller, requests: Sequence[Request | None], answers: Sequence[Answer]
    ) -> list[Answer]:
        """Answers to commands of the service, as the caller may see them. Raises what a read would.

        A retry sees the same. None is the request of who asks for what became of a command.
        """
        del caller, requests
        return list(answers)

    async def forecast(self, caller: Caller, request: Request) -> Answer:
        """What the call would come to, nothing done. Raises as the call itself, and InvalidCommand."""
        del caller, request
        reason = "is not for this operation"
        raise errors.InvalidCommand([{"field": DRY_RUN, "reason": reason}], f"A dry run {reason}.")


class Admissions:
    """The admission of each service, by its name; and what holds for all of them."""

    def __init__(self, by_service: Mapping[str, Admission], room: DiskRoom) -> None:
        self._by_service = by_service
        self._room = room

    def of(self, service: str) -> Admission:
        """What the service adds."""
        return self._by_service[service]

    async def refusals(self, caller: Caller, requests: Sequence[Request]) -> list[errors.PlatformError | None]:
        """As ``Admission.refusals``, for requests to several services."""
        if (no_room := self._room.why_not()) is not None:
            return [no_room] * len(requests)
        return await self._asked(requests, lambda admission, own: admission.refusals(caller, _at(own, requests)))

    def gathers(self, requests: Sequence[Request]) -> bool:
        """As ``Admission.gathers``, for requests to several services."""
        return any(admission.gathers(requests) for admission in self._by_service.values())

    async def signals(self, caller: Caller, requests: Sequence[Request]) -> list[Signals | None]:
        """As ``Admission.signals``, for requests to several services."""
        return await self._asked(requests, lambda admission, own: admission.signals(caller, _at(own, requests)))

    async def travelling(self, caller: Caller, requests: Sequence[Request]) -> list[Json]:
        """As ``Admission.travelling``, for requests to several services."""
        return await self._asked(requests, lambda admission, own: admission.travelling(caller, _at(own, requests)))

    async def hashed(self, caller: Caller, requests: Sequence[Request]) -> list[Request]:
        """The same requests, each with its hash of ``Admission.hashes``."""
        hashes = await self._asked(requests, lambda admission, own: admission.hashes(caller, _at(own, requests)))
        return [structs.replace(r, request_hash=known) for r, known in zip(requests, hashes, strict=True)]

    async def require_reads(self, caller: Caller) -> None:
        """As ``Admission.require_reads``, of every service."""
        for admission in self._by_service.values():
            await admission.require_reads(caller)

    async def shown(self, caller: Caller, requests: Sequence[Request], answers: Sequence[Answer]) -> list[Answer]:
        """As ``Admission.shown``, for answers of several services."""
        return await self._asked(
            requests, lambda admission, own: admission.shown(caller, _at(own, requests), _at(own, answers))
        )

    async def _asked(
        self,
        requests: Sequence[Request],
        ask: Callable[[Admission, Sequence[int]], Awaitable[Sequence[Answered]]],
    ) -> list[Answered]:
        """Asks each service about its own requests, by their places; the answers stand in the order of all."""
        places: dict[str, list[int]] = {}
        for n, request in enumerate(requests):
            places.setdefault(request.operation.service, []).append(n)
        found: dict[int, Answered] = {}
        for service, own in places.items():
            found.update(zip(own, await ask(self.of(service), own), strict=True))
        return [found[n] for n in range(len(requests))]


def _at(places: Sequence[int], of: Sequence[One]) -> list[One]:
    return [of[n] for n in places]
