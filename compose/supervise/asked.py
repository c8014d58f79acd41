"""What a process of ours says of itself at its loopback port for operators."""

from __future__ import annotations

import http.client
from typing import Final

from compose import limits

_OK: Final = 200


def refusal(ops_address: str, path: str) -> str | None:
    """None when the process at ``host:port`` answers ``path`` with 200; else what it says, or why nothing was heard."""
    connection = http.client.HTTPConnection(ops_address, timeout=limits.HEALTH_CHECK_TIMEOUT_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return str(error)
    finally:
        connection.close()
    return None if answer.status == _OK else body
