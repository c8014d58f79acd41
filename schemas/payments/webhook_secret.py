"""The secret of a merchant's webhook endpoint as it lies in the table: sealed, and bound to its row.

Two processes hold the key: the ingress makes a secret, shows it once and seals it; the sender opens it to sign. A copy
of the database signs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from schemas.crypto import sealing

_DOMAIN: Final = "millrace-merchant-webhook-1"


@dataclass(frozen=True, slots=True)
class WebhookSecretKeys:
    """Key-encryption keys by id: the newest seals, every one opens. Without a key nothing is made or sent."""

    keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    newest: str = ""

    def sealed(self, secret_id: str, endpoint_id: str, secret: str) -> sealing.Sealed:
        """The secret for its row. Raises KeyMissing."""
        return sealing.seal(secret.encode(), _binding(secret_id, endpoint_id), self.newest, self.keys)

    def opened(self, secret_id: str, endpoint_id: str, sealed: sealing.Sealed) -> str:
        """The secret of its row. Raises KeyMissing or SealBroken."""
        return sealing.unseal(sealed, _binding(secret_id, endpoint_id), self.keys).decode()

    def renewed(self, secret_id: str, endpoint_id: str, sealed: sealing.Sealed) -> sealing.Sealed:
        """The same secret under the newest key. Raises KeyMissing or SealBroken."""
        return sealing.rewrapped(sealed, _binding(secret_id, endpoint_id), self.newest, self.keys)


def _binding(secret_id: str, endpoint_id: str) -> sealing.Binding:
    return sealing.Binding(_DOMAIN, "secret", (secret_id, endpoint_id))
