"""Session options that every process with point statements shares."""

from __future__ import annotations

from typing import Final

from sinks import limits

#: On young tables the plan of a prepared statement would keep a sequential scan or a hash join: measured 140 us a
#: command instead of 20 in the owner, 0.5 ms a look-up in the ingress. Every statement of these sessions has an index.
INDEXED: Final = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off"


def not_held(held_ms: int) -> str:
    """A process that stands still in a transaction keeps what it locked from whoever takes over no longer than this.

    It is stopped, or its machine is: its connection stays, and no keepalive would tell.
    """
    return f"-c idle_in_transaction_session_timeout={held_ms}"


NOT_HELD: Final = not_held(limits.IDLE_IN_TRANSACTION_TIMEOUT_MS)
