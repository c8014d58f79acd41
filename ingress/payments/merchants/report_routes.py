"""The route of reports. What is asked for is bounded: a time with two ends, pages, one format out of two."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ingress.commands import calling
from ingress.http.parts import parts_of
from ingress.http.requests import reading
from ingress.payments import reads
from ingress.payments.merchants.reports import FORMATS, REPORTS, Asked, Reports
from schemas import errors
from schemas.fields import currency
from schemas.payments import limits

router: Final = APIRouter()
_DAY_US: Final = 86_400_000_000


@router.get("/v1/reports/{report}")
async def get_report(request: Request, report: str) -> Response:
    """The balance, activity or payouts of a time, as pages of JSON or as one CSV file."""
    parts = parts_of(request)
    caller = await calling.caller_of(request, reads.READ)
    if report not in REPORTS:
        raise errors.NotFound
    asked = _asked(request, caller.merchant)
    if reading.choice(request, "format", FORMATS) == "csv":
        chunks = await parts.get(Reports).csv(report, asked)
        name = f'attachment; filename="{report}.csv"'
        headers = calling.NO_STORE | {"Content-Disposition": name, "X-Content-Type-Options": "nosniff"}
        return StreamingResponse(chunks, headers=headers, media_type="text/csv")
    limit = reading.limit(request, limits.REPORT_PAGE_LIMIT_DEFAULT, limits.REPORT_PAGE_LIMIT_MAX)
    return calling.json(await parts.get(Reports).page(report, asked, limit, reading.query(request, "cursor")))


def _asked(request: Request, merchant: str) -> Asked:
    """The time and the currency. Raises InvalidCommand with all that is wrong."""
    start, end = reading.past_time(request, "from"), reading.past_time(request, "to")
    code = reading.query(request, "currency")
    wrong = [
        {"field": name, "reason": "is required"} for name, value in (("from", start), ("to", end)) if value is None
    ]
    if code is not None and not currency.is_currency(code):
        wrong.append({"field": "currency", "reason": "must be an upper-case ISO 4217 code"})
    if start is not None and end is not None and not start <= end <= start + limits.REPORT_DAYS_MAX * _DAY_US:
        wrong.append({"field": "to", "reason": f"must lie from 0 to {limits.REPORT_DAYS_MAX} days after from"})
    if wrong or start is None or end is None:
        raise errors.InvalidCommand(wrong, "The report asked for cannot be made; see errors.")
    return Asked(merchant=merchant, start=max(0, start), end=max(0, end), currency=code)
