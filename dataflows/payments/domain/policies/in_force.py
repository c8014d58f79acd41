"""The policies that decisions follow, as one value: owners replace it whole, so a decision sees one version."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct, field

from dataflows.payments.domain.policies.fees import FeeVersion
from dataflows.payments.domain.policies.risk import RiskPolicy
from schemas.payments.policies import reference_rates
from schemas.payments.policies.reference_rates import ReferenceRates
from schemas.payments.policies.routing import RoutingPolicy


class ProcessorHealth(Struct, frozen=True, kw_only=True):
    """What workers last saw of a processor: its circuit breaker and the outcomes within their window."""

    as_of: int  # microseconds
    breaker: Literal["closed", "open", "half_open"]
    succeeded: int
    declined: int
    failed: int
    unknown: int

    @property
    def outcomes(self) -> int:
        """How many outcomes the window holds."""
        return self.succeeded + self.declined + self.failed + self.unknown


class PublishedRates(Struct, frozen=True, kw_only=True):
    """One version of the reference rates; with version 0, which has none, nothing is exchanged by hand."""

    version: int = 0
    document: ReferenceRates | None = None


def read_rates(version: int, body: str) -> PublishedRates:
    """A published version. Raises msgspec.DecodeError for a document of a newer build."""
    return PublishedRates(version=version, document=reference_rates.read(body))


class Policies(Struct, frozen=True, kw_only=True):
    """The published policies as an owner last read them. May be seconds old; a decision names the versions it used."""

    risk: RiskPolicy = RiskPolicy()
    routing: RoutingPolicy = RoutingPolicy()
    fees: tuple[FeeVersion, ...] = ()  # every version, newest first: a payment keeps its first terms
    reference_rates: PublishedRates = PublishedRates()
    frozen_merchants: frozenset[str] = frozenset()
    processors: frozenset[str] = frozenset()  # of this installation; empty = any that a rule names
    health: dict[str, ProcessorHealth] = field(default_factory=dict)  # by processor; unknown = healthy


#: nothing was published: every payment is allowed, every processor is the default one
NOTHING_PUBLISHED: Final = Policies()
