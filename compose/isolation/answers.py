"""What an answer of the API shows of a tenant whose it is not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from compose.isolation.found import Found

if TYPE_CHECKING:
    from compose.isolation.api_connection import Answer
    from compose.isolation.canaries import Canary

#: a field of whichever document, also of one line of many; not what a text says, in which quotes are escaped
_TENANT_FIELD: Final = re.compile(r'"tenant_id"\s*:\s*"([^"]*)"')


def given(place: str, answer: Answer, asks: Canary, other: Canary) -> Found:
    """What the answer shows that is not of who asks. What is refused shows nothing, and proves as little."""
    if shows(answer.text, other):
        return Found(place, "another tenant's marker or id is in the answer", is_leak=True)
    if set(_TENANT_FIELD.findall(answer.text)) - {asks.tenant_id}:
        return Found(place, "what is another tenant's is in the answer", is_leak=True)
    return Found(place, None if answer.is_success else f"{answer.status_code} in place of a tenant's own")


def shows(text: str, other: Canary) -> bool:
    """Whether a text has what the other's data alone has."""
    return any(said in text for said in (other.marker, other.resource_id, other.subject))
