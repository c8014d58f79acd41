"""What a canary owns beside its resource and its usage: an export, a billed day, a support grant; each made once.

Without them the routes of such objects would be asked for ids that are nobody's. An export is done when it is ready
and an invoice when the run is over, in whichever round that is. A grant is revoked at once: nobody can ever use it, and
no person is asked to decide on it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from compose.isolation.canaries import STAFF
from schemas.errors import Unavailable

if TYPE_CHECKING:
    from compose.isolation.canaries import Canary, Doors


def ensure(doors: Doors, canary: Canary) -> None:
    """Makes what is not there; looked at again once a minute. Raises Unavailable."""
    for name, make in (("export", _export), ("billed", _billed), ("grant", _grant)):
        doors.remembered((name, canary.tenant_id), lambda make=make: make(doors, canary))  # type: ignore[misc]


def _export(doors: Doors, canary: Canary) -> None:
    """Of its resource, which is made before."""
    path = f"/v1/tenants/{canary.tenant_id}/export"
    doors.done(STAFF, "POST", path, f"canary-export-{canary.tenant_id}", {})


def _billed(doors: Doors, canary: Canary) -> None:
    """The day before yesterday, if nothing was billed yet: without prices, so an invoice of nothing."""
    path = f"/v1/tenants/{canary.tenant_id}/billing_runs"
    answer = doors.ask(STAFF, "GET", path, params={"limit": "1"})
    if not answer.is_success:
        raise Unavailable(f"GET {path}: {answer.status_code}")
    if answer.json()["data"]:
        return
    today = datetime.now(UTC).date()
    begins, ends = (today - timedelta(days=days) for days in (2, 1))
    period = {"from": f"{begins}T00:00:00Z", "to": f"{ends}T00:00:00Z", "grace_s": 0}
    doors.done(STAFF, "POST", path, f"canary-billed-{canary.tenant_id}-{begins}", period)


def _grant(doors: Doors, canary: Canary) -> None:
    """Its reason has what the canary's data alone has and people may read."""
    path = f"/v1/tenants/{canary.tenant_id}/support_grants"
    said = {"reason": f"isolation probe {canary.subject}", "ticket": "isolation"}
    made = doors.done(STAFF, "POST", path, f"canary-grant-{canary.tenant_id}", said)
    ended = f"{path}/{made['grant_id']}/revoke"
    doors.done(canary.tenant_id, "POST", ended, f"canary-revoked-{canary.tenant_id}", {})
