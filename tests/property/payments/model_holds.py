"""Money held on a card as the reference model sees it (reference 3.1 and 3.5), in plain dicts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.property.payments.model_parts import OPEN, Parts

if TYPE_CHECKING:
    from schemas.records import Command


class Holds(Parts):
    """How holds grow and end. ``until``: when they end, where a fact said so."""

    def __init__(self) -> None:
        super().__init__()
        self.until: dict[str, int | None] = defaultdict(lambda: None)
        self.ended: dict[str, str] = {}  # of payments whose hold is over, why

    def _attempt(
        self, i: dict[str, Any], kind: str, amount: int, *, final: bool = True, state: str = "processing"
    ) -> None:
        i["latest_attempt"] += 1
        i["state"] = state
        self.attempts[i["id"]].append(
            {"kind": kind, "status": "created", "amount": amount, "final": final, "settled_line": None,
             "processor": i["processor"]}
        )  # fmt: skip

    def _held(self, i: dict[str, Any], a: dict[str, Any], p: dict[str, Any]) -> None:
        self._post(i, *self._memo(i), a["amount"])
        if a["kind"] == "increment":
            i["amount"] += a["amount"]
            if i["id"] in self.ended:
                self._post(i, *self._memo(i)[::-1], a["amount"])
                self._without_hold(i, self.ended[i["id"]])
                return
        i["amount_capturable"] += a["amount"]
        if a["kind"] == "increment":
            i["state"] = "requires_capture"
            return
        self.until[i["id"]] = p.get("authorized_until")
        if i["state"] == "canceled":  # heard of too late: it is given up at once
            self._attempt(i, "void", a["amount"], state="canceled")
        else:
            i["state"] = "requires_capture"

    def _increment(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        if i["state"] != "requires_capture":
            return "state_conflict"
        if p["amount"] <= i["amount"]:
            return "amount_not_higher"
        return self._attempt(i, "increment", p["amount"] - i["amount"])

    def _expire(self, i: dict[str, Any], p: dict[str, Any], _: Command) -> str | None:
        attempts = self.attempts[i["id"]]
        held = [n for n, a in enumerate(attempts, 1) if (a["kind"], a["status"]) == ("authorize", "authorized")]
        operation = f"op_{i['id'].removeprefix('pi_')}_{held[0]}" if held else ""
        until = self.until[i["id"]] if i["amount_capturable"] else None
        if not held or p["operation_id"] != operation or p["authorized_until"] != until:
            return "stale_fact"
        releasing = any(a["kind"] == "void" and a["status"] in OPEN for a in attempts)
        if i["state"] not in ("requires_capture", "canceled") or releasing:
            return "stale_fact"
        if i["state"] == "requires_capture":
            i["cancellation_reason"] = "expired"
        state = "processing" if i["state"] == "requires_capture" else "canceled"
        return self._attempt(i, "void", i["amount_capturable"], state=state)

    @staticmethod
    def _is_release(i: dict[str, Any], a: dict[str, Any], p: dict[str, Any]) -> bool:
        if (a["kind"], p["status"]) != ("authorize", "voided"):
            return False
        whole = (p["amount"], p["currency"]) == (a["amount"], i["currency"])
        return a["status"] == "authorized" or (a["status"] in OPEN and whole and p["error_code"] == "expired")

    def _released(self, i: dict[str, Any], a: dict[str, Any], p: dict[str, Any]) -> str | None:
        if a["status"] == "authorized" and i["id"] in self.ended:
            return "stale_fact"
        self.ended[i["id"]] = "expired" if p["error_code"] == "expired" else "released_by_processor"
        known = a["status"] == "authorized"
        a["status"] = "authorized"
        if not known:
            self._post(i, *self._memo(i), a["amount"])
        self._post(i, *self._memo(i)[::-1], i["amount_capturable"] if known else a["amount"])
        i.update(amount_capturable=0, next_action=None)
        if not (known and i["state"] == "processing"):
            self._without_hold(i, self.ended[i["id"]])
        return None

    @staticmethod
    def _without_hold(i: dict[str, Any], why: str | None) -> None:
        if i["state"] == "canceled":
            return
        i["state"] = "succeeded" if i["amount_received"] else "canceled"
        if i["state"] == "canceled":
            i["cancellation_reason"] = i["cancellation_reason"] or why

    @staticmethod
    def _memo(i: dict[str, Any]) -> tuple[str, str]:
        return f"auth_hold:{i['processor']}", f"auth_obligation:{i['merchant_id']}"
