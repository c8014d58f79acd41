"""What a test or a demo pulls at: payers, holds, disputes, verdicts and settlement reports, over HTTP."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from compose.simulator import limits
from compose.simulator.actions import ActionBody, EndAction, EndHold
from compose.simulator.disputes import CloseBody, CloseDispute, OpenBody, OpenDispute
from compose.simulator.report_reader import ReportReader
from compose.simulator.requests import JSON, content_of, read
from compose.simulator.settlements import MakeReport, ReportBody

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request

    from compose.simulator.book.writer import BookWriter

CSV: Final = "text/csv; charset=utf-8; header=present"
_encoder: Final = msgspec.json.Encoder()
_acting: Final = msgspec.json.Decoder(ActionBody)
_opening: Final = msgspec.json.Decoder(OpenBody)
_closing: Final = msgspec.json.Decoder(CloseBody)
_report: Final = msgspec.json.Decoder(ReportBody)


class Levers:
    """The handlers over one book; ``on_effect`` is called when there may be something to tell."""

    def __init__(self, folder: Path, writer: BookWriter, on_effect: Callable[[], None], *, tells: bool) -> None:
        self._writer = writer
        self._reports = ReportReader(folder)
        self._on_effect = on_effect
        self._tells = tells

    async def post_action(self, request: Request) -> Response:
        """Ends the wait for a payer: done, or failed."""
        body = read(await content_of(request), _acting)
        deed = EndAction(request.path_params["operation_id"], body.outcome, self._tells)
        ended = await self._writer.do(deed)
        self._on_effect()
        return Response(_encoder.encode(ended), media_type=JSON)

    async def post_hold_expire(self, request: Request) -> Response:
        """Lets a hold end now, as time would."""
        ended = await self._writer.do(EndHold(request.path_params["operation_id"], self._tells))
        self._on_effect()
        return Response(_encoder.encode(ended), media_type=JSON)

    async def post_dispute(self, request: Request) -> Response:
        """Opens a dispute: the funds are withdrawn when this answers."""
        body = read(await content_of(request), _opening)
        dispute = await self._writer.do(OpenDispute(body, self._tells))
        self._on_effect()
        return _created(dispute)

    async def post_dispute_close(self, request: Request) -> Response:
        """Closes a dispute; the same verdict again is the same answer."""
        body = read(await content_of(request), _closing)
        deed = CloseDispute(request.path_params["dispute_id"], body.outcome, self._tells)
        dispute = await self._writer.do(deed)
        self._on_effect()
        return Response(_encoder.encode(dispute), media_type=JSON)

    async def post_settlement(self, request: Request) -> Response:
        """Makes a report of everything that is unsettled."""
        body = read(await content_of(request, limits.SIMULATOR_SETTLEMENT_BODY_BYTES_MAX), _report)
        return _created(await self._writer.do(MakeReport(body)))

    async def get_settlements(self, _: Request) -> Response:
        """Streams the list of all reports, oldest first."""
        return StreamingResponse(self._reports.listing(), media_type=JSON)

    async def get_settlement(self, request: Request) -> Response:
        """Streams one report."""
        return StreamingResponse(self._reports.download(request.path_params["report_id"]), media_type=CSV)


def _created(body: dict[str, Any]) -> Response:
    return Response(_encoder.encode(body), HTTPStatus.CREATED, media_type=JSON)
