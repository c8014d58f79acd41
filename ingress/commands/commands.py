"""A mutating call from its envelope to its answer: fast path, Kafka, the owner's decision, the same bytes again.

Step 1 of the retry-safe mutation (spec 1 section 3) happens here: the caller is known. The owner does step 2, the
look-up of a prior result, in its commit. It is also done here if the command would be refused, has effects before it is
sent, is not waited for, or if no decisions come by the reply topic.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ingress import limits
from ingress.commands import envelope
from ingress.commands.accepted import Note
from ingress.http import answers
from ingress.http.requests import request_ids
from schemas import errors, records
from schemas.services import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.commands.accepted import AcceptedRequests
    from ingress.commands.admission import Admissions
    from ingress.commands.exchange import Exchange
    from ingress.commands.pending import Pending
    from ingress.commands.stored import Stored, StoredResults
    from ingress.identity.caller import Caller
    from ingress.identity.signed_requests import Proof, SignedRequests

_SECOND_US: Final = 1_000_000
_KEY_REUSED: Final = answers.failed(errors.KeyReused())


class Terms(Struct, frozen=True):
    """The terms on which a call waits, and its trace."""

    wait_s: float
    respond_async: bool
    deadline_ms: int | None
    trace_id: str


class Commands:
    """Carries out mutating calls for one process."""

    def __init__(
        self,
        stored: StoredResults,
        exchange: Exchange,
        accepted: AcceptedRequests,
        signed_requests: SignedRequests,
        admissions: Admissions,
    ) -> None:
        self._signed_requests = signed_requests
        self._admissions = admissions
        self._stored = stored
        self._exchange = exchange
        self._accepted = accepted

    async def one(
        self, caller: Caller, request: envelope.Request, terms: Terms, proof: Proof | None = None
    ) -> tuple[answers.Answer, str]:
        """The answer to one call and its request id. Raises Unavailable or QuotaExceeded when nothing was sent.

        A stored result is returned even if the service would not admit the call now.

        ``proof``: the evidence of who signed it, kept before the command is sent so that none is carried out without.
        """
        request_id = request.request_id or request_ids.new()
        (refusal,) = await self._admissions.refusals(caller, [request])
        (request,) = await self._admissions.hashed(caller, [request])
        if refusal is not None or self._looks_first([request], terms, proof):
            prior = await self._stored.find((caller.principal, request.idempotency_key))
            if prior is not None:
                return await self._shown(caller, request, _replay(request, prior)), request_id
        if refusal is not None:
            raise refusal
        if proof is not None:
            await self._signed_requests.keep(proof, [request])
        (signals,) = await self._admissions.signals(caller, [request])
        (payload,) = await self._admissions.travelling(caller, [request])
        command = _command(caller, request, request_id, terms, signals, payload)
        (pending,) = await self._exchange.carry_out(
            [command],
            limits.ACK_WAIT_MAX_S if terms.respond_async else terms.wait_s,
            only_acknowledged=terms.respond_async,
            bulk=terms.respond_async,
        )
        answer = _answer(request, pending, respond_async=terms.respond_async)
        if answer.pending:
            await self._accepted.remember(_note(pending))
        return await self._shown(caller, request, answer), request_id

    async def _shown(self, caller: Caller, request: envelope.Request, answer: answers.Answer) -> answers.Answer:
        (found,) = await self._admissions.shown(caller, [request], [answer])
        return found

    async def many(
        self, caller: Caller, lines: Sequence[bytes], terms: Terms, proof: Proof | None = None
    ) -> list[answers.Answer]:
        """One answer per line, in order. A bad line costs no other line anything, unless the list is signed.

        A signed list is kept as it came, so a line that is no command is refused with the list: it could hold anything.
        """
        requests, found = await _read_lines(caller, lines)
        if proof is not None and len(requests) < len(lines):
            n, refused = next((n, answer) for n, answer in enumerate(found) if answer is not None)
            raise errors.MalformedRequest(f"Line {n + 1} of the signed list is no valid command: {refused.code}.")
        refusals = await self._admissions.refusals(caller, [request for _, request in requests])
        hashed = await self._admissions.hashed(caller, [request for _, request in requests])
        requests = [(n, request) for (n, _), request in zip(requests, hashed, strict=True)]
        looks_first = self._looks_first([request for _, request in requests], terms, proof)
        looked_up = [
            line for line, refusal in zip(requests, refusals, strict=True) if looks_first or refusal is not None
        ]
        priors = await self._stored.find_all([(caller.principal, r.idempotency_key) for _, r in looked_up])
        for (n, request), prior in zip(looked_up, priors, strict=True):
            found[n] = None if prior is None else _replay(request, prior)
        for (n, _), refusal in zip(requests, refusals, strict=True):
            if refusal is not None and found[n] is None:
                found[n] = answers.failed(refusal)
        fresh = [(n, request) for n, request in requests if found[n] is None]
        if proof is not None and fresh:
            await self._signed_requests.keep(proof, [request for _, request in fresh])
        for n, answer in await self._carry_out_all(caller, fresh, terms):
            found[n] = answer
        told = [answer for answer in found if answer is not None]
        for (n, _), answer in zip(
            requests,
            await self._admissions.shown(caller, [r for _, r in requests], [told[n] for n, _ in requests]),
            strict=True,
        ):
            told[n] = answer
        return told

    def _looks_first(self, requests: Sequence[envelope.Request], terms: Terms, proof: Proof | None) -> bool:
        """Whether to look for a prior result first; otherwise the owner, which looks anyway, returns it."""
        return (
            terms.respond_async  # nobody would wait for the owner
            or proof is not None  # evidence is kept once, with the first try
            or self._exchange.is_silent
            or self._admissions.gathers(requests)
        )

    async def _carry_out_all(
        self, caller: Caller, fresh: list[tuple[int, envelope.Request]], terms: Terms
    ) -> list[tuple[int, answers.Answer]]:
        if not fresh:
            return []
        signals = await self._admissions.signals(caller, [request for _, request in fresh])
        payloads = await self._admissions.travelling(caller, [request for _, request in fresh])
        commands = [
            _command(caller, request, request.request_id or request_ids.new(), terms, seen, payload)
            for (_, request), seen, payload in zip(fresh, signals, payloads, strict=True)
        ]
        pendings = await self._exchange.carry_out(
            commands,
            limits.ACK_WAIT_MAX_S if terms.respond_async else terms.wait_s,
            only_acknowledged=terms.respond_async,
            bulk=True,
        )
        made = [
            (n, _answer(request, pending, respond_async=terms.respond_async))
            for (n, request), pending in zip(fresh, pendings, strict=True)
        ]
        notes = [_note(pending) for pending, (_, answer) in zip(pendings, made, strict=True) if answer.pending]
        await self._accepted.remember_all(notes)
        return made


async def _read_lines(
    caller: Caller, lines: Sequence[bytes]
) -> tuple[list[tuple[int, envelope.Request]], list[answers.Answer | None]]:
    """The valid calls with their places, and for each invalid line its answer."""
    found: list[answers.Answer | None] = [None] * len(lines)
    requests: list[tuple[int, envelope.Request]] = []
    for n, line in enumerate(lines):
        try:
            request = envelope.read_line(line, caller.principal)
            caller.require(request.operation.scope)
            requests.append((n, request))
        except errors.Rejected as error:
            found[n] = answers.failed(error)
        if n % limits.COMMANDS_PER_TURN == limits.COMMANDS_PER_TURN - 1:
            await asyncio.sleep(0)  # single commands must not wait for a long list
    return requests, found


def _command(
    caller: Caller,
    request: envelope.Request,
    request_id: str,
    terms: Terms,
    signals: dict[str, str] | None,
    payload: dict[str, Any],
) -> records.Command:
    now = time.time_ns() // 1_000
    return records.Command(
        operation=request.operation.name,
        request_id=request_id,
        idempotency_key=request.idempotency_key,
        aggregate_key=request.aggregate_key,
        expected_version=request.expected_version,
        scope=caller.principal,
        request_hash=request.request_hash,
        trace_id=terms.trace_id,
        issued_at=now,
        deadline_at=now + terms.deadline_ms * 1_000 if terms.deadline_ms else 0,
        reply_to=-1,
        reply_id=0,
        payload=payload,
        signals=signals,
    )


def _note(pending: Pending) -> Note:
    command = pending.command
    identity = command.idempotency_key, command.request_hash
    place = None if pending.place is None else (OPERATIONS[command.operation].topic, *pending.place)
    return Note(command.scope, command.request_id, command.deadline_at, *identity, command.aggregate_key, place)


def _replay(request: envelope.Request, prior: Stored) -> answers.Answer:
    """Rule: the same identity and request get the stored result, the same identity with another request key_reused."""
    if prior.request_hash != request.request_hash:
        return _KEY_REUSED
    if prior.status == "committed":
        return answers.committed(request.operation, prior.response, replayed=True)
    return answers.refused(prior.response, replayed=True)


def _answer(request: envelope.Request, pending: Pending, *, respond_async: bool) -> answers.Answer:
    """The answer for the state of a command: decided, failed, accepted, or unknown to us."""
    if pending.error is not None:
        return answers.failed(pending.error)
    # decided, and not acknowledged in time: the decision is told, since nobody would find out without the place
    if respond_async and pending.place is not None:
        return answers.pending(pending.command.request_id)
    if pending.outcome == "committed":
        return answers.committed(request.operation, pending.body, replayed=pending.replayed)
    if pending.outcome is not None:
        return answers.refused(pending.body, replayed=pending.replayed)
    if pending.place is not None:
        return answers.pending(pending.command.request_id)
    return answers.failed(errors.Unavailable("Kafka has not acknowledged the command; the same identity finds out."))
