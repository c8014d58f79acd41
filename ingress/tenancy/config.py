"""What the multi-tenant platform alone needs of an ingress process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sinks.certificates import CertificateKeys

if TYPE_CHECKING:
    from sinks.tenancy.secrets_file import TenancySecrets


@dataclass(frozen=True, slots=True, kw_only=True)
class TenancyConfig:
    """Plain values, beside those of every service."""

    secrets: TenancySecrets | None = field(default=None, repr=False)  # None: no tenant's data is served
    support_issuer: Path | None = None  # its folder signs what support shows; None: no token of a grant is given
    #: what certificates are verified with
    certificate_keys: CertificateKeys = field(default_factory=lambda: CertificateKeys(Path("keys")), repr=False)
