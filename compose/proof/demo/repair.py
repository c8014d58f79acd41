"""A repair by two persons: one proposes to write the short line off, may not approve it alone, and another one does."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx

from compose.proof import limits as proof_limits
from ingress.identity.issuer import KeyFolder, issue_token
from schemas import limits

if TYPE_CHECKING:
    from compose.proof.kit.own_stack import OwnStack
    from reconciliation.payments.settlement.file_result import Discrepancy

PROPOSES: Final = "m_demo_ann"
APPROVES: Final = "m_demo_bob"
_NOTE: Final = "the processor confirmed the lower amount"


@dataclass(slots=True)
class Repair:
    """What became of it. ``preview`` is what the proposal said of every balance that it moves."""

    state: str = "not proposed"
    is_own_approval_refused: bool = False
    preview: list[dict[str, Any]] = field(default_factory=list)
    problem: str = ""

    @property
    def is_done(self) -> bool:
        """Posted, by two persons."""
        return self.state == "posted" and self.is_own_approval_refused and not self.problem


def write_off(stack: OwnStack, short: Discrepancy | None) -> Repair:
    """Proposes, tries to approve it alone, approves as another person, and waits until it is posted."""
    done = Repair()
    if short is None or short.case_id is None:
        done.problem = "repair: the short line has no case"
        return done
    try:
        _carry_out(stack, short, done)
    except (httpx.HTTPError, KeyError) as error:
        done.problem = f"repair: {str(error) or type(error).__name__}"
        return done
    if not done.is_done:
        alone = "refused" if done.is_own_approval_refused else "not refused"
        done.problem = f"repair: {done.state}, the author's own approval was {alone}"
    return done


def _carry_out(stack: OwnStack, short: Discrepancy, done: Repair) -> None:
    payload = {
        "template": "write_off",
        "amount": short.amount,
        "currency": short.currency,
        "side": "loss",
        "note": _NOTE,
    }
    body = {"idempotency_key": f"{short.case_id}-write-off", "payload": payload}
    with _person(stack, PROPOSES) as ann, _person(stack, APPROVES) as bob:
        proposed = ann.post(f"/v1/cases/{short.case_id}/proposals", json=body).raise_for_status().json()
        done.preview = proposed["preview"]
        path = f"/v1/repairs/{proposed['id']}"
        done.is_own_approval_refused = ann.post(f"{path}/approve").status_code == httpx.codes.FORBIDDEN
        bob.post(f"{path}/approve").raise_for_status()
        ends_at = time.monotonic() + proof_limits.DEMO_ACT_WAIT_S
        while True:
            done.state = bob.get(path).raise_for_status().json()["state"]
            if done.state == "posted" or time.monotonic() > ends_at:
                return
            time.sleep(proof_limits.DEMO_SETTLE_POLL_MS / 1_000)


def _person(stack: OwnStack, name: str) -> httpx.Client:
    token = issue_token(KeyFolder(stack.home / "keys"), name, ("operator",), limits.TOKEN_TTL_MAX_S, kind="staff")
    return httpx.Client(
        base_url=stack.settings.addresses().base_url,
        headers={"Authorization": f"Bearer {token}"},
        timeout=proof_limits.DEMO_ACT_WAIT_S,
        trust_env=False,
    )
