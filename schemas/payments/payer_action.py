"""What a payer has to do, as it is kept and as it is shown: an address to go to, or an action of another kind.

Kept is the bare address, as it always was, or the text of a JSON object with ``type``, ``url`` and ``details``.
"""

from __future__ import annotations

import json
from typing import Any, Final

from schemas.payments import limits

REDIRECT: Final = "redirect_to_url"


def kept(kind: str, url: str | None, details: dict[str, Any]) -> str | None:
    """The text of an action; without its details when they are too long for us, None when there is nothing to keep."""
    for told in (details, {}):
        text = json.dumps({"type": kind, "url": url, "details": told}, sort_keys=True)
        if len(text) <= limits.NEXT_ACTION_LENGTH_MAX:
            return text
    return None


def shown(action: str) -> dict[str, Any]:
    """As the API shows it."""
    if not action.startswith("{"):
        return {"type": REDIRECT, "url": action}
    found: dict[str, Any] = json.loads(action)
    return found
