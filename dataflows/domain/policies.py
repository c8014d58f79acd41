"""The policies that decisions are made by, as one value. Owners replace it whole; a decision sees one version of each."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from dataflows.domain.risk import RiskPolicy
from dataflows.domain.routing import RoutingPolicy


class Policies(Struct, frozen=True, kw_only=True):
    """What operators published, as an owner read it last. May be seconds old; a decision names the versions it used."""

    risk: RiskPolicy = RiskPolicy()
    routing: RoutingPolicy = RoutingPolicy()
    frozen_merchants: frozenset[str] = frozenset()


#: nothing was published: every payment is allowed, every processor is the default one
NOTHING_PUBLISHED: Final = Policies()
