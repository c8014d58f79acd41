"""The processor's HTTP face: reads a request, asks the book, answers as the card's mode says.

Every effect and every outcome comes from the book; this module only decides what leaves on the wire.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from compose.simulator import errors, limits
from compose.simulator.actions import due_now
from compose.simulator.book.reader import BookReader
from compose.simulator.book.writer import BookWriter
from compose.simulator.executor import Query, Result
from compose.simulator.http.connections import HeldConnections, LostAnswer
from compose.simulator.http.levers import Levers
from compose.simulator.metrics import SimulatorMetrics
from compose.simulator.operations import modes
from compose.simulator.operations.nouns import is_operation_id, operation_read
from compose.simulator.refund_failures import FailDueRefunds
from compose.simulator.requests import JSON, content_of
from compose.simulator.webhook_sender import WebhookSender
from compose.simulator.webhooks import CountWaiting, Deliveries, IsTelling, Receiver, now_ms

if TYPE_CHECKING:
    from pathlib import Path

    from compose.simulator.book.book import Book

PROBLEM_JSON: Final = "application/problem+json"
READY_PROBE: Final = Query("readiness-probe")
_encoder: Final = msgspec.json.Encoder()
log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorConfig:
    """Where the book lies, how long a lost answer hangs, and who is told of what happens."""

    folder: Path
    hold_ms: int = limits.SIMULATOR_HOLD_MS
    receiver: Receiver | None = None


class Processor:
    """The handlers of one running simulator over an open book, which it owns from then on."""

    def __init__(self, config: SimulatorConfig, book: Book) -> None:
        self.metrics = SimulatorMetrics()
        self.held = HeldConnections(config.hold_ms)
        self.writer = BookWriter(book, self.metrics.batch_operations.observe)
        self.levers = Levers(config.folder, self.writer, self.wake_sender, tells=config.receiver is not None)
        self._reader = BookReader(config.folder)
        self._loop = asyncio.get_running_loop()
        self._sender: WebhookSender | None = None
        if config.receiver is not None:
            self._sender = WebhookSender(config.folder, config.receiver, self._booked, self.metrics)
            self._sender.start()
        self._clock = self._loop.create_task(self._end_what_is_due())

    async def close(self) -> None:
        """Breaks held connections, ends deliveries, commits what is queued and closes the book."""
        self.held.close()
        self._clock.cancel()
        if self._sender is not None:
            await asyncio.to_thread(self._sender.stop)
        await self.writer.close()

    def wake_sender(self) -> None:
        """Something was booked that somebody may have to be told of."""
        if self._sender is not None:
            self._sender.wake()

    async def post_operation(self, request: Request) -> Response:
        """Answers after the operation is durable, as its card's mode says."""
        content = await content_of(request)
        operation = operation_read(request.headers.get("idempotency-key"), content)
        result = await self.writer.submit(operation)
        self._count(result)
        self.wake_sender()
        if result.webhook_first:
            await self._told(operation.operation_id)
        if result.delay_ms:
            # The effect is booked already: a query during the delay tells the truth.
            await asyncio.sleep(result.delay_ms / 1_000)
        return self._answer(result)

    async def get_operation(self, request: Request) -> Response:
        """Answers in the order of the sends: a 404 means that no send before it was executed."""
        operation_id = request.path_params["operation_id"]
        if not is_operation_id(operation_id):
            raise errors.NotFound
        result = await self.writer.submit(Query(operation_id))
        return self._answer(result)

    async def get_book(self, _: Request) -> Response:
        """Streams one consistent state of the whole book."""
        return StreamingResponse(self._reader.fragments(), media_type=JSON)

    async def get_health(self, _: Request) -> Response:
        """Alive: the loop turns."""
        return _json_response({"status": "alive"})

    async def get_readiness(self, _: Request) -> Response:
        """Ready: the writer goes through a transaction in time."""
        try:
            async with asyncio.timeout(limits.SIMULATOR_READY_TIMEOUT_S):
                await self.writer.submit(READY_PROBE)
        except errors.NotFound:
            return _json_response({"status": "ready"})
        except TimeoutError as error:
            raise errors.BookUnavailable from error
        return _json_response({"status": "ready"})

    async def get_metrics(self, _: Request) -> Response:
        """The Prometheus exposition of this process."""
        self.metrics.webhooks_waiting.set(await self.writer.do(CountWaiting()))
        return Response(self.metrics.exposition(), media_type=self.metrics.CONTENT_TYPE)

    async def _told(self, operation_id: str) -> None:
        """Waits until nothing is left to be told of the operation, a bounded time."""
        try:
            async with asyncio.timeout(limits.SIMULATOR_WEBHOOK_FIRST_WAIT_MS / 1_000):
                while await self.writer.do(IsTelling(operation_id)):  # noqa: ASYNC110 - another thread tells
                    await asyncio.sleep(limits.SIMULATOR_WEBHOOK_FIRST_POLL_MS / 1_000)
        except TimeoutError:
            return  # the receiver is away: the answer is not withheld for ever

    def _booked(self, deliveries: Deliveries) -> None:
        """For the sender's thread: durable when it returns. Raises errors.SimulatorError, TimeoutError."""
        done = asyncio.run_coroutine_threadsafe(self.writer.do(deliveries), self._loop)
        done.result(limits.SIMULATOR_WEBHOOK_TIMEOUT_S)

    async def _end_what_is_due(self) -> None:
        while True:
            await asyncio.sleep(limits.SIMULATOR_CLOCK_MS / 1_000)
            try:
                tells = self._sender is not None
                both = self.writer.do(FailDueRefunds(now_ms(), tells=tells)), self.writer.do(due_now(tells=tells))
                ended = sum(await asyncio.gather(*both))  # in one commit
            except errors.SimulatorError as error:
                log.warning("simulator_clock_stands", error=error.message)  # the next turn finds them due still
                continue
            if ended:
                self.wake_sender()

    def _count(self, result: Result) -> None:
        if result.is_replay:
            self.metrics.replayed.inc()
        elif result.outcome is not None:
            self.metrics.executed.labels(result.outcome.kind, result.outcome.status).inc()

    def _answer(self, result: Result) -> Response:
        truth = b"" if result.outcome is None else _encoder.encode(result.outcome)
        if result.answer is modes.Answer.TRUTH:
            headers = {"Idempotency-Replayed": "true"} if result.is_replay else None
            return Response(truth, media_type=JSON, headers=headers)
        self.metrics.faults.labels(result.answer.value).inc()
        match result.answer:
            case modes.Answer.LOST:
                return LostAnswer(self.held)
            case modes.Answer.GARBAGE:
                # Half of the truth with noise after it: no parser takes it, and nothing in it can be trusted.
                return Response(truth[: len(truth) // 2] + b"\x00<html>", media_type=JSON)
            case modes.Answer.ERROR:
                return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, "processor_error", "Something went wrong.")


def make_app(processor: Processor) -> Starlette:
    """The application over one processor; who made the processor closes it. Its API is fixed by README.md."""
    levers = processor.levers
    routes = [
        Route("/v1/operations", processor.post_operation, methods=["POST"]),
        Route("/v1/operations/{operation_id}", processor.get_operation),
        Route("/actions/{operation_id}", levers.post_action, methods=["POST"]),
        Route("/holds/{operation_id}/expire", levers.post_hold_expire, methods=["POST"]),
        Route("/disputes", levers.post_dispute, methods=["POST"]),
        Route("/disputes/{dispute_id}/close", levers.post_dispute_close, methods=["POST"]),
        Route("/settlements", levers.post_settlement, methods=["POST"]),
        Route("/settlements", levers.get_settlements),
        Route("/settlements/{report_id}", levers.get_settlement),
        Route("/book", processor.get_book),
        Route("/healthz", processor.get_health),
        Route("/readyz", processor.get_readiness),
        Route("/metrics", processor.get_metrics),
    ]
    handlers: dict[Any, Any] = {
        errors.SimulatorError: _on_simulator_error,
        HTTPException: _on_http_exception,
        Exception: _on_unexpected,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


async def _on_simulator_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, errors.SimulatorError):
        raise error
    return _problem(error.status, error.code, error.message, error.errors)


async def _on_http_exception(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    code = "not_found" if error.status_code == HTTPStatus.NOT_FOUND else "not_allowed"
    return _problem(error.status_code, code, "This processor has no such route.")


async def _on_unexpected(_: Request, __: Exception) -> Response:
    # The server logs the exception itself; the caller learns only that the outcome is open.
    return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "Ask again with the same identity.")


def _problem(status: int, code: str, detail: str, wrong: list[dict[str, str]] | None = None) -> Response:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        "code": code,
    }
    if wrong is not None:
        body["errors"] = wrong
    headers = {"Retry-After": str(limits.SIMULATOR_RETRY_AFTER_S)} if status == errors.Overloaded.status else {}
    return Response(_encoder.encode(body), status, headers, PROBLEM_JSON)


def _json_response(body: dict[str, str]) -> Response:
    return Response(json.dumps(body), media_type=JSON)
