"""Admission of a service's commands before they are sent: refuses a command, or adds what its owner should know."""

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
    """The default: admits every command of its service and adds nothing."""

    async def refusals(self, caller: Caller, requests: Sequence[Request]) -> list[errors.PlatformError | None]:
        """The reason to refuse each request, in order; None to admit it. Raises Unavailable."""
        del caller
        return [None] * len(requests)

    def gathers(self, requests: Sequence[Request]) -> bool:
        """Whether ``signals`` would ask or count for these requests; then retries are found first, not counted."""
        del requests
        return False

    async def signals(self, caller: Caller, requests: Sequence[Request]) -> list[Signals | None]:
        """The signals of each request, in order: what was seen of the call besides its content. Raises Unavailable."""
        del caller
        return [None] * len(requests)

    async def travelling(self, caller: Caller, requests: Sequence[Request]) -> list[Json]:
        """The payload that is sent for each request, in order. Raises Unavailable."""
        del caller
        return [request.payload for request in requests]

    async def hashes(self, caller: Caller, requests: Sequence[Request]) -> list[bytes]:
        """The hash that tells a retry of each request from another request, in order. Raises Unavailable."""
        del caller
        return [request.request_hash for request in requests]

    async def require_caller(self, caller: Caller) -> None:
        """Raises an error if this caller may not call at all: it hears that before what is wrong with its call."""

    async def require_reads(self, caller: Caller) -> None:
        """Raises an error if this caller may not read its events and operations now."""

    async def shown(
        self, caller: Caller, requests: Sequence[Request | None], answers: Sequence[Answer]
    ) -> list[Answer]:
        """The answers to commands of the service as the caller may see them. Raises the errors of a read.

        A retry sees the same. A request is None when a caller asks what became of a command.
        """
        del caller, requests
        return list(answers)

    async def forecast(self, caller: Caller, request: Request) -> Answer:
        """The answer that the call would get, without doing it. Raises as the call itself, and InvalidCommand."""
        del caller, request
        reason = "is not for this operation"
        raise errors.InvalidCommand([{"field": DRY_RUN, "reason": reason}], f"A dry run {reason}.")


class Admissions:
    """The admissions of all services, by service name."""

    def __init__(self, by_service: Mapping[str, Admission], room: DiskRoom) -> None:
        self._by_service = by_service
        self._room = room

    def of(self, service: str) -> Admission:
        """The admission of one service."""
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
        """The same requests, each with its hash from ``Admission.hashes``."""
        hashes = await self._asked(requests, lambda admission, own: admission.hashes(caller, _at(own, requests)))
        return [
            r if known is r.request_hash else structs.replace(r, request_hash=known)
            for r, known in zip(requests, hashes, strict=True)
        ]

    async def require_reads(self, caller: Caller) -> None:
        """As ``Admission.require_reads``, for every service."""
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
        """Asks each service about its own requests; the answers are in the order of all requests."""
        services = {request.operation.service for request in requests}
        if len(services) == 1:  # nearly always
            return list(await ask(self.of(services.pop()), range(len(requests))))
        places: dict[str, list[int]] = {}
        for n, request in enumerate(requests):
            places.setdefault(request.operation.service, []).append(n)
        found: dict[int, Answered] = {}
        for service, own in places.items():
            found.update(zip(own, await ask(self.of(service), own), strict=True))
        return [found[n] for n in range(len(requests))]


def _at(places: Sequence[int], of: Sequence[One]) -> Sequence[One]:
    return of if len(places) == len(of) else [of[n] for n in places]
