"""What an endpoint of a merchant may be: its URL, the events that it asks for, its description. Pure."""

from __future__ import annotations

from typing import Any, Final

from schemas import errors, limits
from schemas.fields import card_number
from schemas.fields.validation import free_text
from schemas.payments import webhook_url
from schemas.payments.event_names import EVENT_NAMES
from schemas.payments.operations import OPERATIONS

EVERYTHING: Final = "*"
#: what an endpoint may ask for: events by their names, or by the operations that they come from
EVENTS: Final = (*EVENT_NAMES, *(name for name in OPERATIONS if name != "post_journal"))
FIELDS: Final = frozenset({"url", "events", "description"})
Json = dict[str, Any]


def checked(payload: object, *, loopback: bool) -> Json:
    """What is wanted of an endpoint, with defaults. Raises MalformedRequest and InvalidCommand."""
    if not isinstance(payload, dict):
        raise errors.MalformedRequest("The body must be a JSON object.")
    if "merchant_id" in payload or "tenant_id" in payload:
        raise errors.MalformedRequest("The merchant is the token's; it does not belong in the body.")
    found = {"events": [EVERYTHING], "description": None, **payload}
    reasons = {
        **dict.fromkeys(map(str, found.keys() - FIELDS), "is not a field of an endpoint"),
        "url": _why_not_url(found.get("url"), loopback=loopback),
        "events": _why_not_events(found["events"]),
        "description": _why_not_description(found["description"]),
    }
    wrong = [{"field": name[: limits.TEXT_LENGTH_MAX], "reason": why} for name, why in reasons.items() if why]
    if wrong:
        raise errors.InvalidCommand(wrong)
    return {**found, "events": sorted(set(found["events"])), "description": found["description"] or None}


def _why_not_url(value: object, *, loopback: bool) -> str | None:
    if not isinstance(value, str):
        return "must be a URL"
    try:
        webhook_url.parse(value, loopback=loopback)
    except webhook_url.RefusedUrl as refusal:
        return f"{refusal}{_of_the_switch(value) if not loopback else ''}"
    return card_number.REFUSED if card_number.url_holds_card_number(value) else None


def _of_the_switch(url: str) -> str:
    """What whoever tries things out has to set, where that alone is missing."""
    try:
        webhook_url.parse(url, loopback=True)
    except webhook_url.RefusedUrl:
        return ""
    return "; for development MILLRACE_MERCHANT_WEBHOOKS_LOOPBACK=true allows this machine"


def _why_not_events(value: object) -> str | None:
    if not isinstance(value, list) or not value or len(value) > len(EVENTS) + 1:
        return 'must be a list of operations, or ["*"]'
    unknown = [item for item in value if item not in (EVERYTHING, *EVENTS)]
    return f"must be of {', '.join((EVERYTHING, *EVENTS))}" if unknown else None


def _why_not_description(value: object) -> str | None:
    return None if value is None else free_text(value, limits.TEXT_LENGTH_MAX, 0)
