"""Named places where a test kills the process, to prove that SIGKILL loses nothing there.

``MILLRACE_FAIL_POINT=name`` kills at the first pass, ``name:3`` at the third. Unset, ``reach`` costs one dict look-up.
"""

from __future__ import annotations

import os
import signal
from functools import cache
from typing import Final

NAMES: Final = (
    "before_claim",
    "after_claim",
    "after_decide",
    "before_commit",
    "after_commit_before_publish",
    "after_publish_before_mark",
    "after_park_before_publish",
    "attempt_after_lease",
    "attempt_after_send",
    "attempt_after_answer_before_report",
    "attempt_after_report",
    "attempt_after_give_up",
    "webhook_after_claim",
    "webhook_after_tell",
    "webhook_after_record",
    "merchant_webhook_before_plan",
    "merchant_webhook_after_claim",
    "merchant_webhook_after_send",
    "repair_reading",
    "repair_sending",
    "repair_sent",
    "repair_settled",
    "case_sweep_begun",
    "case_sweep_opened",
    "case_sweep_done",
    "reports_begun",
    "reports_fetched",
    "reports_ended",
    "reports_done",
    "sink_after_plan",
    "sink_after_insert",
    "sink_after_mark",
    "decisions_after_table",
    "worker_after_send",
    "fanout_before_deliveries",
    "fanout_after_deliveries",
    "fanout_before_turn",
    "fanout_in_turn",
    "metering_before_position",
    "metering_after_commit",
    "metering_before_refused_counted",
    "invoice_before_commit",
    "drain_after_plan",
    "reseal_after_page",
    "move_after_page",
    "move_after_step",
    "move_before_fence",
    "move_before_commit",
    "move_after_commit",
)


@cache
def _passes_left() -> dict[str, int]:
    name, _, nth = os.environ.get("MILLRACE_FAIL_POINT", "").partition(":")
    if not name:
        return {}
    if name not in NAMES:
        raise ValueError(f"MILLRACE_FAIL_POINT: {name!r} is not one of {', '.join(NAMES)}")
    return {name: int(nth or 1)}


def reach(name: str) -> None:
    """Does nothing unless this fail point is armed; then kills this process with SIGKILL at the armed pass."""
    passes_left = _passes_left()  # read late: a forked process has an environment of its own
    if name in passes_left:
        passes_left[name] -= 1
        if passes_left[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
