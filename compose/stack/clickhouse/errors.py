"""ClickHouse's exceptions as its HTTP interface gives them: a code, a text and the status that goes with the code."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

ACCESS_DENIED: Final = 497
AUTHENTICATION_FAILED: Final = 516
BAD_ARGUMENTS: Final = 36
NOT_IMPLEMENTED: Final = 48
QUERY_IS_TOO_LARGE: Final = 460
READONLY: Final = 164
TOO_LARGE_BODY: Final = 307  # TOO_MANY_BYTES
TOO_MANY_SIMULTANEOUS_QUERIES: Final = 202
UNKNOWN_EXCEPTION: Final = 1002
UNKNOWN_SETTING: Final = 115
CANNOT_DECOMPRESS: Final = 271

_CODE: Final = re.compile(r"Code: (\d+)\.")

#: the table of ClickHouse's own HTTPHandler (exceptionCodeToHTTPStatus); every other code is a 500
_STATUSES: Final = {
    HTTPStatus.UNAUTHORIZED: {194},
    HTTPStatus.FORBIDDEN: {192, 193, 516, 495, 497},
    HTTPStatus.BAD_REQUEST: {
        6, 26, 27, 38, 41, 42, 43, 62, 53, 70, 72, 73, 130, 131, 349, 456, 457, 467, 469, 675,
    },
    HTTPStatus.NOT_FOUND: {46, 47, 50, 56, 60, 63, 64, 65, 81, 106, 115, 136, 137, 139, 158},
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: {307, 460},
    HTTPStatus.NOT_IMPLEMENTED: {48},
    HTTPStatus.SERVICE_UNAVAILABLE: {209, 74, 439},
    HTTPStatus.REQUEST_TIMEOUT: {159},
}  # fmt: skip


class QueryError(Exception):
    """A query failed; ``code`` is ClickHouse's number for why."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status that ClickHouse answers with for this code."""
        return next(
            (status for status, codes in _STATUSES.items() if self.code in codes),
            HTTPStatus.INTERNAL_SERVER_ERROR,
        )

    @classmethod
    def named(cls, code: int, name: str, reason: str) -> QueryError:
        """An error of the front itself in ClickHouse's words."""
        return cls(code, f"Code: {code}. DB::Exception: {reason} ({name})")

    @classmethod
    def of_engine(cls, error: Exception) -> QueryError:
        """The engine's exception without what its Python wrapper put before it."""
        text = str(error)
        found = _CODE.search(text)
        if found is None:
            return cls.named(UNKNOWN_EXCEPTION, "UNKNOWN_EXCEPTION", text or type(error).__name__)
        return cls(int(found.group(1)), text[found.start() :].strip())
