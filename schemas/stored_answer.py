"""What ``idempotency.response`` holds: the answer as its caller got it, or one byte, the number of a frozen rendering.

A rendering makes the answer again from its event, which stands in the outbox for as long as the identity stands beside
it: no role may delete or change a row there, and ``millrace check`` looks (invariant ``results``). It gives the same
bytes for ever, whatever became of the aggregate and whatever release asks: a rendering never changes, and another form
of the answer is another number. JSON begins with ``{``, so no byte below 32 is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from schemas import errors, services, stored_event
from schemas.avro import codec

#: of a fact that nobody waited for: the answer names its event, which says the rest
STUB: Final = 0
#: of ``Committed.rendering``: the answer is stored as it was told
WHOLE: Final = -1
_RENDERINGS_END: Final = 32  # above: text
_HEAD: Final = ("event_id", "aggregate_key", "event_type", "schema_version", "trace_id")
_json: Final = msgspec.json.Encoder()


def told(result: Any, head: Mapping[str, Any]) -> bytes:
    """The answer to a committed command, with the head of its event."""
    return _json.encode({"result": result, "event": head})


def stub(head: Mapping[str, Any]) -> bytes:
    """The answer to a fact that nobody waited for."""
    return told(None, {"event_id": head["event_id"], "aggregate_key": head["aggregate_key"]})


def rendered_by(rendering: int) -> bytes | None:
    """What is stored of an answer that this rendering makes again; None where the answer itself is to be stored."""
    return None if rendering == WHOLE or stored_event.only_published() else bytes((rendering,))


def whole(response: bytes, event: bytes | None) -> bytes:
    """The answer, byte for byte as it was told first. ``event``: what is stored where ``answer_event_seq`` leads.

    Raises Corrupt when the answer has to be rendered and that cannot be read, or is not there.
    """
    if not response or response[0] >= _RENDERINGS_END:
        return response
    if event is None:
        raise errors.Corrupt("The event of a stored answer is missing.")
    schema, fields = codec.decode(stored_event.published(event))
    head = {name: fields[name] for name in _HEAD}
    if response[0] == STUB:
        return stub(head)
    service, _ = services.EVENT_BY_RECORD[schema.name]
    rendering = service.renderings.get(response[0])
    if rendering is None:
        raise errors.Corrupt("A stored answer has a rendering of a later release.", rendering=response[0])
    return told(rendering.result(fields["body"]), head)
