"""Decisions of persons over the API, for a shell: the same door, audit row and second person as for everybody."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx

from compose import limits
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: statuses that decide nothing: the same call may be sent again
_UNDECIDED: Final = frozenset(
    (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
)


class UndecidedError(StackError):
    """Nobody said whether it is done: the same call may be sent again, under the same identity."""


def read(token: str, path: str, query: Mapping[str, str | int] | None = None) -> Any:
    """What stands under ``/v1/{path}``. Raises StackError with the API's own words."""
    return document(call("GET", token, path, query=query))


def decide(token: str, path: str, body: dict[str, Any], *, is_identified: bool = False) -> Any:
    """The answer to a decision. Raises StackError with the API's own words."""
    headers = {"Idempotency-Key": uuid.uuid4().hex} if is_identified else {}
    return document(call("POST", token, path, body=body, headers=headers))


def call(
    method: str,
    token: str,
    path: str,
    *,
    body: dict[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str | int] | None = None,
) -> httpx.Response:
    """The answer, a success. Raises StackError with the API's own words, and UndecidedError where it has none."""
    url = f"{load_settings().addresses().base_url}/v1/{quote(path)}"
    named = {"Authorization": f"Bearer {_bearer(token)}"} | dict(headers or {})
    try:
        answer = httpx.request(
            method,
            url,
            json=body or None,
            headers=named,
            params=dict(query) if query else None,
            timeout=limits.API_ANSWER_WAIT_S,
            trust_env=False,
        )
    except (httpx.HTTPError, ValueError) as error:
        raise UndecidedError(f"The API does not answer at {url}: {error}") from error
    if answer.is_success:
        return answer
    raise (UndecidedError if answer.status_code in _UNDECIDED else StackError)(_said(document(answer)))


def document(answer: httpx.Response) -> Any:
    """The JSON of an answer. Raises UndecidedError where it is none: then it is not the API's."""
    try:
        return answer.json()
    except ValueError as error:
        raise UndecidedError(f"The API does not answer at {answer.url}: {error}") from error


def _said(problem: Any) -> str:
    if not isinstance(problem, dict):
        return f"what answers is not the API: {str(problem)[:100]}"
    wrong = "".join(f"; {one['field']} {one['reason']}" for one in problem.get("errors", []))
    return f"{problem.get('code')}: {problem.get('detail')}{wrong}"


def _bearer(token: str) -> str:
    """A text that no library has reason to refuse: its words would repeat it."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise StackError("this is no token: one line of 'millrace token'")
    return token
