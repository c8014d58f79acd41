"""Questions that cost as much as a tenant has used: few are under way at once, of one tenant fewer.

So whoever has metered millions of events, and asks for their sums again and again, leaves connections to Postgres for
everybody else: to those who ask about their own usage, and to all who ask for something else.
"""

from __future__ import annotations

from ingress.http.turns import Turns
from schemas.tenancy import limits


class Questions(Turns):
    """Those of one process, by tenant."""

    def __init__(self) -> None:
        super().__init__(
            "Other questions about usage are under way; ask again later.",
            of_each=limits.USAGE_QUESTIONS_OF_TENANT_MAX,
            of_all=limits.USAGE_QUESTIONS_MAX,
        )
