"""What counts for a processor's health, and for how long."""

from __future__ import annotations

from dataclasses import replace

from dataflows.payments.attempts.adapter import Answer, NotExecuted, NotSent, Pending, RequiresAction, Unknown
from dataflows.payments.attempts.health import Counts, HealthWindow, outcome_of
from schemas.payments import limits
from tests.each import each
from tests.unit.payments.test_attempts_settlement import CAPTURED

DECLINED = replace(CAPTURED, status="declined", error_code="insufficient_funds")


@each(
    ("answer", "is_query", "counted"),
    [
        (CAPTURED, False, Counts(succeeded=1)),
        (CAPTURED, True, Counts(succeeded=1)),
        (DECLINED, False, Counts(declined=1)),
        (replace(CAPTURED, status="failed"), False, Counts(failed=1)),
        (NotSent("not_connected"), False, Counts(failed=1)),
        (NotExecuted("http_429"), False, Counts(failed=1)),
        (Unknown("timeout", is_outage=True), False, Counts(unknown=1)),
        (Unknown("unparseable"), True, Counts(unknown=1)),
        (NotExecuted("not_found"), True, None),
        (Pending("r"), False, None),
        (RequiresAction("r", None), False, None),
        (NotExecuted("vault_not_connected"), False, None),
        (NotExecuted("no_vault"), False, None),
        (NotExecuted("payment_method_unknown", is_for_good=True), False, None),
        (Unknown("vault_timeout"), False, None),
    ],
)
def test_operations_are_counted_by_what_the_processor_made_of_them(
    answer: Answer, is_query: bool, counted: Counts | None
) -> None:
    """An outage of our vault is none of the processor's, and not knowing an operation is no failure."""
    assert outcome_of(answer, is_query=is_query) == counted


def test_the_window_slides_and_forgets() -> None:
    """Everything within the window, nothing older, in a bounded number of buckets."""
    window = HealthWindow()
    for second in range(10 * limits.PROCESSOR_HEALTH_WINDOW_S):
        window.add(Counts(succeeded=1, unknown=second % 2), float(second))
    now = 10.0 * limits.PROCESSOR_HEALTH_WINDOW_S - 1
    bucket_s = limits.PROCESSOR_HEALTH_WINDOW_S / limits.PROCESSOR_HEALTH_BUCKETS
    assert (
        limits.PROCESSOR_HEALTH_WINDOW_S - bucket_s <= window.counts(now).succeeded <= limits.PROCESSOR_HEALTH_WINDOW_S
    )
    assert window.counts(now + limits.PROCESSOR_HEALTH_WINDOW_S) == Counts()
    window.add(Counts(declined=1), now + 1_000)
    assert window.counts(now + 1_000) == Counts(declined=1)
