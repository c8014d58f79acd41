"""Decisions of persons over the API, for a shell: the same door, audit row and second person as for everybody."""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import quote

import httpx

from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from schemas.payments import limits


def read(token: str, path: str) -> Any:
    """What stands under ``/v1/{path}``. Raises StackError with the API's own words."""
    return _answered("GET", token, path, None, {})


def decide(token: str, path: str, body: dict[str, Any], *, is_identified: bool = False) -> Any:
    """The answer to a decision. Raises StackError with the API's own words."""
    headers = {"Idempotency-Key": uuid.uuid4().hex} if is_identified else {}
    return _answered("POST", token, path, body, headers)


def _answered(method: str, token: str, path: str, body: dict[str, Any] | None, headers: dict[str, str]) -> Any:
    url = f"{load_settings().addresses().base_url}/v1/{quote(path)}"
    try:
        answer = httpx.request(
            method,
            url,
            json=body or None,
            headers={"Authorization": f"Bearer {token}"} | headers,
            timeout=limits.CASE_DECISION_WAIT_S,
            trust_env=False,
        )
        found = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise StackError(f"The API does not answer at {url}: {error}") from error
    if answer.is_success:
        return found
    wrong = "".join(f"; {one['field']} {one['reason']}" for one in found.get("errors", []))
    raise StackError(f"{found.get('code')}: {found.get('detail')}{wrong}")
