"""Teaches schemathesis the media type of command lists."""

from __future__ import annotations

import json
from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def command_list(_: Any, value: Any) -> bytes:
    """A text as it is; anything else as one line of JSON."""
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="surrogatepass")
