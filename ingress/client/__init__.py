"""The Python client of Millrace: commands keep their identity over retries, lost answers are found again.

    with MillraceClient(base_url, token) as client:
        intent = client.create(amount=1099, currency="USD", payment_method="tok_sim_approve").result
        client.confirm(intent["id"])
        client.wait(intent["id"], "succeeded")

It imports schemas, httpx and the standard library only.
"""

from ingress.client.asynchronous import AsyncMillraceClient
from ingress.client.errors import (
    CallRefused,
    Conflict,
    IdentityReused,
    InvalidCall,
    MillraceClientError,
    ObjectNotFound,
    ServiceUnavailable,
    SignatureRefused,
    StillProcessing,
    Undecided,
)
from ingress.client.messages import CommandLine, Committed, LineAnswer, StreamedEvent
from ingress.client.synchronous import MillraceClient

__all__ = [
    "AsyncMillraceClient",
    "CallRefused",
    "CommandLine",
    "Committed",
    "Conflict",
    "IdentityReused",
    "InvalidCall",
    "LineAnswer",
    "MillraceClient",
    "MillraceClientError",
    "ObjectNotFound",
    "ServiceUnavailable",
    "SignatureRefused",
    "StillProcessing",
    "StreamedEvent",
    "Undecided",
]
