"""Pages: templates with every value escaped, and the header fields that no page goes without.

The policy allows no inline script or style and nothing from elsewhere: text of strangers that got into a page through a
mistake would still be text.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import HTMLResponse, Response

from ingress import limits
from ingress.browser import protection
from ingress.browser.rendering import environment
from schemas.fields.currency import EXPONENTS, format_minor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = protection.headers(CONTENT_SECURITY_POLICY)
_MINUS: Final = "\u2212"
_NO_CURRENCY: Final = "\u2014"
_GROUP: Final = 3
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
_DAYS_SHOWN_MAX: Final = 99


class Templates:
    """Renders the templates of the console, and of the packages that bring pages to it."""

    def __init__(self, packages: Sequence[str] = ()) -> None:
        self._environment = environment("ingress.console", *packages)
        self._environment.globals["counted_max"] = limits.CONSOLE_COUNTED_MAX
        self._environment.filters |= _FILTERS
        self._environment.tests |= _TESTS

    def html(
        self, template: str, context: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        """A page, or a part of one."""
        text = self._environment.get_template(template).render(context)
        return HTMLResponse(text, status, HEADERS | dict(headers or {}))


def money(amount_minor: int | None, currency: str | None) -> str:
    """Minor units as people read them: ``(109950, "USD")`` is ``1,099.50``, ``(500, "JPY")`` is ``500``."""
    if amount_minor is None:
        return _NO_CURRENCY
    amount = int(amount_minor)
    # What a report says may be of no currency that we know: then its minor units are shown as they are.
    text = format_minor(abs(amount), currency) if currency in EXPONENTS and currency is not None else str(abs(amount))
    whole, point, rest = text.partition(".")
    return f"{_MINUS if amount < 0 else ''}{int(whole):,}{point}{rest}"


def age(at: datetime, now: datetime | None = None) -> str:
    """How long ago, in one unit: ``3 h``; of something to come, ``in 3 h``."""
    seconds = int(((now or datetime.now(UTC)) - at).total_seconds())
    text = next((f"{abs(seconds) // size} {unit}" for size, unit in _AGES if abs(seconds) >= size), f"{abs(seconds)} s")
    return text if seconds >= 0 else f"in {text}"


def stamp(at: datetime) -> str:
    """The absolute time, in UTC to the millisecond."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-_GROUP] + " UTC"


def clock(at: datetime) -> str:
    """The time of day in UTC, to the millisecond, with its day."""
    return at.astimezone(UTC).strftime("%d %b %H:%M:%S.%f")[:-_GROUP]


def moment(seconds: float) -> datetime:
    """Seconds since the epoch as a time."""
    return datetime.fromtimestamp(seconds, UTC)


def words(name: str) -> str:
    """An identifier as words: ``requires_capture`` is ``requires capture``."""
    return name.replace("_", " ")


#: the colour of each state, by its words; what stands in none of them is plain
_TONES: Final = {
    "good": """succeeded captured authorized refunded committed applied delivered matched posted resolved won active
        done completed finalized paid reinstated voided decided taken_in allow verified reviewed""",
    "bad": """failed declined manual_review lost rejected given_up parked case duplicate missing short over sign_flipped
        orphan withdrawn truncated block blocked review halted disabled unexplained refused remove removed
        violated revoked denied aborted void disputed""",
    "open": """created pending unknown processing requires_capture requires_action requires_confirmation
        requires_merchant_action requires_payment_method proposed approved open waiting needs_response under_review
        stored due reported leased warning_needs_response warning_under_review appeal_needs_response appeal_under_review
        submitted in_transit requested soaking
        copying verifying fencing planned prepared catching_up aborting rolling_back unpaid assigned limit label""",
}
_TONE_OF: Final = {state: name for name, states in _TONES.items() for state in states.split()}


def tone(state: str | None) -> str:
    """The colour of a state: good, bad, open or plain. A colour never stands without its word."""
    return _TONE_OF.get(state or "", "plain")


#: what a case keeps as minor units
_AMOUNTS: Final = frozenset(("amount", "amount_minor", "balance", "older_than_horizon"))
_ID: Final = re.compile(r"(?:pi|re|dp|po|op|case|rp|evt|req)_[A-Za-z0-9_]{1,64}\Z")


def is_amount(name: object) -> bool:
    """Whether a field of a case's evidence holds minor units."""
    return name in _AMOUNTS


def is_id(value: object) -> bool:
    """Whether a text looks like an id of ours, which the search finds."""
    return isinstance(value, str) and _ID.match(value) is not None


def is_said_by_rules(value: object) -> bool:
    """Whether it is what risk rules gave as their reasons."""
    known = {"rule", "detail", "shadow"}
    return isinstance(value, list) and bool(value) and all(isinstance(x, dict) and known <= x.keys() for x in value)


def compact(value: object) -> str:
    """A document as it was stored, on one line."""
    return json.dumps(value, ensure_ascii=False)


_FILTERS: Final = {
    "money": money,
    "age": age,
    "stamp": stamp,
    "clock": clock,
    "moment": moment,
    "words": words,
    "tone": tone,
    "json": compact,
}
_TESTS: Final = {"amount": is_amount, "id": is_id, "said_by_rules": is_said_by_rules}
