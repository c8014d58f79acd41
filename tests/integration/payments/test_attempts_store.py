"""What the workers' statements promise each other: no doubt is lost, and nothing is given up that may have left."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.payments import statements
from dataflows.payments.attempts.adapter import NotSent, Unknown
from dataflows.payments.attempts.dispatch import Change, changes_of
from dataflows.payments.attempts.dispatch_store import DispatchStore
from dataflows.payments.attempts.health import Counts, Health
from dataflows.payments.attempts.settlement import settle
from dataflows.payments.webhooks import releases
from dataflows.payments.webhooks.inbox_store import InboxStore
from schemas.avro import codec
from schemas.payments import limits
from schemas.payments.records import PaymentIntent
from sinks.postgres.owner_connection import connect
from tests.contracts import golden
from tests.worlds.payments.attempts_world import event_of, new_attempt
from tests.worlds.sink_stage import new_stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from tests.servers import World
    from tests.worlds.sink_stage import Stage

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def stage(stack: World) -> Iterator[Stage]:
    with new_stage(stack.settings, payments=1) as made:
        yield made


def change(attempt: dict[str, Any], **changes: Any) -> Change:
    (found,) = changes_of(codec.decode_event(event_of(attempt | changes)))
    return found


def with_stores(stage: Stage, work: Callable[[DispatchStore, DispatchStore], Awaitable[None]]) -> None:
    """Two workers over one table."""

    async def run() -> None:
        stores = [DispatchStore(stage.dsn("millrace_worker"), name) for name in ("one", "two")]
        for store in stores:
            await store.open()
        try:
            await work(*stores)
        finally:
            for store in stores:
                await store.close()

    asyncio.run(run())


def sql(stage: Stage, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def aged(stage: Stage, attempt: dict[str, Any], seconds: int) -> None:
    sql(stage, "update attempt_dispatch set first_at = now() - %s * interval '1 second', next_at = now() - interval '1 second'"
        " where operation_id = %s", seconds, attempt["operation_id"])  # fmt: skip


def test_a_word_about_an_earlier_lease_does_not_clear_the_doubt_of_a_later_one(stage: Stage) -> None:
    """A worker slept through its lease and holds the next one when "nothing was sent" of the first comes up."""
    attempt = new_attempt(processor="late")

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        (first,) = await one.take([change(attempt)], {attempt["operation_id"]})
        aged(stage, attempt, 60)
        (second,) = await one.lease("late", 1)
        assert (first.send_count, second.send_count, second.in_doubt) == (1, 2, True)
        await one.record([settle(first, NotSent("not_connected"), 0.0, 0.0).record])
        assert await two.give_up("late", is_away=True) == []
        ((status, in_doubt),) = sql(
            stage, "select status, in_doubt from attempt_dispatch where operation_id = %s", attempt["operation_id"]
        )
        assert (status, in_doubt) == ("leased", True)

    with_stores(stage, work)


@pytest.mark.parametrize(
    ("changes", "is_leased", "age_s", "is_away", "code"),
    [
        ({}, False, limits.ATTEMPT_UNAVAILABLE_AFTER_S + 1, True, "processor_unavailable"),
        ({"kind": "authorize"}, False, limits.ATTEMPT_UNAVAILABLE_AFTER_S + 1, True, "processor_unavailable"),
        ({}, False, limits.ATTEMPT_UNREACHABLE_MAX_S + 1, False, "processor_unreachable"),
        (
            {"kind": "refund", "parent_ref": "r"},
            False,
            limits.ATTEMPT_UNREACHABLE_MAX_S + 1,
            True,
            "processor_unavailable",
        ),
        # too early, the processor answers, only it can do it, or it may have been sent
        ({}, False, limits.ATTEMPT_UNAVAILABLE_AFTER_S - 9, True, None),
        ({}, False, limits.ATTEMPT_UNAVAILABLE_AFTER_S + 1, False, None),
        ({"kind": "capture", "parent_ref": "r"}, False, limits.ATTEMPT_UNAVAILABLE_AFTER_S + 1, True, None),
        ({"kind": "refund", "parent_ref": "r"}, False, limits.ATTEMPT_UNAVAILABLE_AFTER_S + 1, True, None),
        ({}, True, limits.ATTEMPT_UNREACHABLE_MAX_S + 1, True, None),
    ],
)
def test_given_up_is_only_what_never_left_and_is_then_never_sent(
    stage: Stage, changes: dict[str, Any], is_leased: bool, age_s: int, is_away: bool, code: str | None
) -> None:
    """Rule: an attempt that may have been sent never ends as failed by itself. After the commit nobody leases it."""
    attempt = new_attempt(processor="away", **changes)
    sql(stage, "delete from attempt_dispatch where processor = 'away'")

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        await one.take([change(attempt)], {attempt["operation_id"]} if is_leased else set())
        aged(stage, attempt, age_s)
        told = await one.give_up("away", is_away=is_away)
        assert [(fact.status, fact.error_code, fact.attempt) for fact in told] == (
            [("failed", code, 1)] if code else []
        )
        assert await two.give_up("away", is_away=is_away) == []
        assert len(await two.lease("away", 5)) == (0 if code else 1)
        sql(stage, "update attempt_dispatch set next_at = now() where processor = 'away' and status = 'reported'")
        again = [fact for fact in await two.repeat() if fact.operation_id == attempt["operation_id"]]
        assert [fact.error_code for fact in again] == ([code] if code else []), (
            "killed before it told: the next one does"
        )

    with_stores(stage, work)


@pytest.mark.parametrize(
    ("breaker", "answered", "is_given_up"),
    [("closed", 3, False), ("half_open", 1, False), ("open", 3, True), ("closed", 0, True)],
)
def test_a_charge_that_another_worker_can_send_is_not_given_up(
    stage: Stage, breaker: Any, answered: int, is_given_up: bool
) -> None:
    """One worker lost its way to the processor. A worker that asked nothing lately says nothing about it."""
    name = f"reached_{breaker}_{answered}"
    attempt = new_attempt(processor=name)

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        await one.take([change(attempt)], set())
        aged(stage, attempt, limits.ATTEMPT_UNAVAILABLE_AFTER_S + 1)
        await two.tell_health([Health(processor=name, counts=Counts(declined=answered), breaker=breaker)])
        await one.tell_health([Health(processor=name, counts=Counts(failed=9), breaker="open")])
        assert len(await one.give_up(name, is_away=True)) == int(is_given_up)
        assert len(await two.lease(name, 1)) == int(not is_given_up)

    with_stores(stage, work)


def test_what_may_have_been_sent_waits_for_its_processor_however_long_it_is_away(stage: Stage) -> None:
    """It waits in the table like what never left, and only the doubt tells them apart."""
    attempt = new_attempt(processor="doubtful")

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        (lease,) = await one.take([change(attempt)], {attempt["operation_id"]})
        await one.record([settle(lease, Unknown("timeout"), lease.first_at, 0.0).record])
        aged(stage, attempt, limits.ATTEMPT_UNREACHABLE_MAX_S + 1)
        assert await two.give_up("doubtful", is_away=True) == []
        (again,) = await two.lease("doubtful", 1)
        assert again.in_doubt

    with_stores(stage, work)


def test_every_send_tells_the_payer_the_same(stage: Stage) -> None:
    """The first one from the event, a later one from the row; a capture tells nothing any more."""
    told = {
        "description": "Glasses",
        "receipt_email": None,
        "statement_descriptor": None,
        "return_url": "https://a.example/",
    }
    attempts = [new_attempt(processor="told"), new_attempt(processor="told", kind="capture", parent_ref="ch_1")]
    intents = [PaymentIntent(**golden.RECORDS["PaymentSystemCommitted"]["body"]["payment_intent"] | told | {"id": a["intent_id"]}) for a in attempts]  # fmt: skip
    with connect(stage.dsn(), "intents") as connection:
        connection.execute(*statements.intents_insert(intents, 0))
    wanted = [{"description": "Glasses", "return_url": "https://a.example/"}, {}]

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        for attempt, for_payer in zip(attempts, wanted, strict=True):
            event = codec.decode_event(event_of(attempt))
            event.body["payment_intent"] |= told  # type: ignore[index, operator] # of this service
            (first,) = await one.take(changes_of(event), {attempt["operation_id"]})
            aged(stage, attempt, 60)
            (second,) = await two.lease("told", 1)
            assert (first.call.for_payer, second.call.for_payer) == (for_payer, for_payer)

    with_stores(stage, work)


@pytest.mark.parametrize(
    ("kind", "state", "is_unwanted"),
    [("purchase", "canceled", True), ("purchase", "requires_action", False), ("void", "canceled", False)],
)
def test_a_lease_says_whether_its_payment_was_canceled_meanwhile(
    stage: Stage, kind: str, state: str, is_unwanted: bool
) -> None:
    """Nobody waits for the payer of a canceled one; what releases its hold goes on."""
    attempt = new_attempt(processor=f"{kind}_{state}", kind=kind, parent_ref=None if kind == "purchase" else "r")
    body = golden.RECORDS["PaymentSystemCommitted"]["body"]["payment_intent"]
    intent = PaymentIntent(**body | {"id": attempt["intent_id"], "state": state})
    with connect(stage.dsn(), "intents") as connection:
        connection.execute(*statements.intents_insert([intent], 0))

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        await one.take([change(attempt)], {attempt["operation_id"]})
        aged(stage, attempt, 60)
        (again,) = await two.lease(attempt["processor"], 1)
        assert again.is_unwanted == is_unwanted

    with_stores(stage, work)


def test_what_only_a_person_can_end_has_a_case_until_it_ends(stage: Stage) -> None:
    """Opened with the row, once, whatever repeats the event; closed by a late outcome."""
    attempt = new_attempt()

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        for store in (one, two, one):
            await store.take([change(attempt, status="manual_review", error_code="amount_mismatch")], set())
        await one.end_reviews()
        query = "select kind, state, processor, evidence from repair_case where reference = %s"
        ((kind, state, processor, evidence),) = sql(stage, query, attempt["operation_id"])
        assert (kind, state, processor) == ("attempt_review", "open", "simulator")
        assert (evidence["payment_intent"], evidence["error_code"]) == (attempt["intent_id"], "amount_mismatch")
        await two.take([change(attempt, status="captured")], set())
        await two.end_reviews()
        ((_, state, _, _),) = sql(stage, query, attempt["operation_id"])
        assert state == "resolved"

    with_stores(stage, work)


def test_a_fact_that_nobody_takes_becomes_a_persons(stage: Stage) -> None:
    """Past the schedule of repetitions the row is under review, and so it has a case."""
    attempt = new_attempt(processor="deaf")

    async def work(one: DispatchStore, _: DispatchStore) -> None:
        await one.take([change(attempt)], set())
        aged(stage, attempt, limits.ATTEMPT_UNREACHABLE_MAX_S + 1)
        assert len(await one.give_up("deaf", is_away=False)) == 1
        sql(stage, "update attempt_dispatch set next_at = now(), report_count = 1000 where processor = 'deaf'")
        await one.repeat()
        assert sql(stage, "select kind from repair_case where reference = %s", attempt["operation_id"]) == [
            ("attempt_review",)
        ]

    with_stores(stage, work)


def test_health_is_the_sum_over_workers_that_told_lately(stage: Stage) -> None:
    """Counts add up; a processor is as reachable as it is for the worker that reaches it best; old words say nothing."""

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        await one.tell_health([Health(processor="p", counts=Counts(3, 1, 0, 2), breaker="open")])
        assert seen() == (3, 1, 0, 2, "open")
        await two.tell_health([Health(processor="p", counts=Counts(1, 0, 5, 0), breaker="half_open")])
        assert seen() == (4, 1, 5, 2, "half_open")
        await one.tell_health([Health(processor="p", counts=Counts(4, 1, 0, 2), breaker="closed")])
        assert seen() == (5, 1, 5, 2, "closed")
        sql(stage, "update processor_health_report set as_of = now() - interval '1 minute' where worker = 'one'")
        await two.tell_health([Health(processor="p", counts=Counts(1, 0, 5, 0), breaker="open")])
        assert seen() == (1, 0, 5, 0, "open")

    def seen() -> tuple[Any, ...]:
        (row,) = sql(
            stage, "select succeeded, declined, failed, unknown, breaker from processor_health where processor = 'p'"
        )
        return row

    with_stores(stage, work)


def test_one_look_finds_what_both_sweeps_would(stage: Stage) -> None:
    """Else an idle worker leaves what became due to nobody: a retry, a lease that ran out, a fact without its event."""
    waiting, leased, told = (new_attempt(processor=name) for name in ("due_a", "due_b", "due_c"))

    async def work(one: DispatchStore, two: DispatchStore) -> None:
        async def look() -> tuple[set[str], bool]:
            found = await two.due({"due_a", "due_b", "due_c", "none"})
            return set(found.processors), found.has_late_facts

        sql(stage, "update attempt_dispatch set status = 'done', lease_owner = null, lease_until = null")
        await one.take([change(waiting)], set())
        await one.take([change(leased)], {leased["operation_id"]})
        (lease,) = await one.take([change(told)], {told["operation_id"]})
        await one.record([settle(lease, Unknown("timeout"), 0.0, 0.0).record])
        sql(stage, "update attempt_dispatch set next_at = now() + interval '1 hour' where processor like 'due_%%'")
        assert await look() == (set(), False)
        aged(stage, waiting, 1)
        assert await look() == ({"due_a"}, False)
        aged(stage, leased, 1)
        aged(stage, told, 1)
        assert await look() == ({"due_a", "due_b", "due_c"}, False)
        sql(stage, "update attempt_dispatch set status = 'reported', outcome = 'failed' where processor = 'due_c'")
        assert await look() == ({"due_a", "due_b"}, True)
        assert await two.lease("none", 1) == []

    with_stores(stage, work)


def held(stage: Stage, hours_ago: float, number: int, status: str = "authorized") -> tuple[str, str]:
    """A payment with a hold whose time was over so long ago, and its operation."""
    attempt = new_attempt(processor="holds", kind="authorize")
    body = golden.RECORDS["PaymentSystemCommitted"]["body"]["payment_intent"]
    said = {"id": attempt["intent_id"], "state": "requires_capture", "amount_capturable": 1_000 + number}
    with connect(stage.dsn(), "intents") as connection:
        connection.execute(*statements.intents_insert([PaymentIntent(**body | said)], 0))
    sql(stage, "update payment_intent set authorized_until = now() - %s * interval '1 hour', amount_capturable = %s"
        " where id = %s", hours_ago, 1_000 + number, attempt["intent_id"])  # fmt: skip
    sql(
        stage,
        """insert into processor_attempt (intent_id, attempt, kind, status, operation_id, processor, amount, currency,
                                          payment_method, final, created_at, updated_at)
           values (%s, 1, 'authorize', %s, %s, 'holds', 1000, 'USD', 'tok', true, now(), now())""",
        attempt["intent_id"], status, attempt["operation_id"],
    )  # fmt: skip
    return attempt["intent_id"], attempt["operation_id"]


@pytest.fixture
def inbox(stage: Stage) -> Iterator[InboxStore]:
    sql(stage, "delete from processor_attempt")
    sql(stage, "update payment_intent set authorized_until = null")
    with closing(InboxStore(stage.dsn("millrace_worker"), "holds")) as made:
        yield made


def test_overdue_holds_are_read_behind_a_place_in_their_order(
    stage: Stage, inbox: InboxStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a halted owner stay undecided: whoever began at the first again and again would never see the others."""
    monkeypatch.setitem(releases.BOUNDS, "count", 2)
    oldest_first = [held(stage, 10 - number, number)[0] for number in range(3)]
    first = inbox.holds_overdue(releases.FIRST)
    assert [hold.intent_id for hold in first] == oldest_first[:2]
    second = inbox.holds_overdue((first[-1].authorized_until, first[-1].intent_id))
    assert [hold.intent_id for hold in second] == oldest_first[2:]
    assert inbox.holds_overdue((second[-1].authorized_until, second[-1].intent_id)) == []


def test_a_hold_that_nobody_releases_becomes_a_persons_once(stage: Stage, inbox: InboxStore) -> None:
    tries_h = limits.AUTHORIZATION_RELEASE_TRIES_MAX * limits.AUTHORIZATION_RELEASE_RETRY_S / 3_600
    intent_id, operation_id = held(stage, tries_h + 1, 7)
    held(stage, tries_h - 1, 8)
    held(stage, tries_h + 1, 9, status="voided")
    assert inbox.give_up_holds() == [operation_id]
    ((case_id, kind, state, evidence),) = sql(
        stage, "select id, kind, state, evidence from repair_case where reference = %s", operation_id
    )
    assert (kind, state) == ("hold_not_released", "open")
    assert (evidence["payment_intent"], evidence["amount"]) == (intent_id, 1_007)
    assert inbox.give_up_holds() == []
    sql(stage, "update repair_case set state = 'resolved', resolved_at = now() where id = %s", case_id)
    assert inbox.give_up_holds() == [], "whoever closed it knows"
