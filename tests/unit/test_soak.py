"""What the soak expects is reckoned right: plans add up, findings are compared one by one, statements say what is planted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from compose.proof import limits
from compose.proof.soak.payments.accounts import ENDS, MadePayout
from compose.proof.soak.payments.bank import write_statements
from compose.proof.soak.payments.plans import KINDS, Plan, draw
from compose.proof.soak.payments.policies import ASSESSED, countries, risk_document, routing_document
from compose.proof.soak.payments.settlements import LINE_FAULTS, REPORT_FAULTS, Books, Payout, Settlements, Victim
from compose.proof.soak.payments.shop import Shop
from compose.proof.soak.proof import Proof, Verdict
from compose.simulator.operations.modes import MODES
from dataflows.payments.domain import routing
from dataflows.payments.domain.policies import risk
from reconciliation.payments.settlement.file_result import Discrepancy
from reconciliation.payments.settlement.reports.camt053 import read_statements
from reconciliation.payments.settlement.reports.camt053_statement import Entry, Statement
from schemas.payments import limits as payments_limits
from schemas.payments.policies import kinds as policies
from tests.worlds.payments.risk_cases import NOTHING_KNOWN

if TYPE_CHECKING:
    from pathlib import Path

numbers = st.integers(0, 10_000)


@given(seed=st.integers(0, 2**31 - 1), number=numbers)
def test_a_seed_draws_the_same_plans_and_money_never_comes_from_nothing(seed: int, number: int) -> None:
    plan = draw(seed, number)
    assert plan == draw(seed, number)
    assert 0 <= plan.refunded + plan.lost <= plan.received <= plan.amount
    assert plan.refunded + plan.disputed <= plan.received or plan.kind.outcome == "won"
    assert (plan.received > 0) == (plan.state == "succeeded")
    assert all(amount > 0 for amount in (*plan.captures, *plan.refunds))
    if sum(plan.kind.captures) == 100:
        assert sum(plan.captures) == plan.amount


def test_every_kind_comes_once_in_a_round() -> None:
    kinds = [draw(3, number).kind.name for number in range(2 * len(KINDS))]
    assert sorted(kinds[: len(KINDS)]) == sorted(kinds[len(KINDS) :]) == sorted(kind.name for kind in KINDS)
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_cards_of_the_plans_are_cards_of_the_simulator() -> None:
    """And of the ones that misbehave for a moment none is left out."""
    used = {card for kind in KINDS for card in (kind.card, kind.second_card) if card.startswith("tok_")}
    assert used - MODES.keys() == set()
    passing = {token for token, mode in MODES.items() if mode.is_counted or mode.webhook_first or mode.delay_ms}
    assert passing - used == set()


def found(name: str, reference: str, amount: int, currency: str | None = "EUR") -> Discrepancy:
    return Discrepancy(
        found_class=name,
        reference=reference,
        amount=amount,
        currency=currency,
        processor="simulator",
        subject=reference,
        detail=None,
        case_id="case_1",
        first_seen="2026-01-01T00:00:00+00:00",
    )


def books(**changes: object) -> Books:
    """One short and one missing line, planted and found, and every fault planted somewhere."""
    made = Books(
        planted=[("short", "pi_1", 7, "EUR"), ("missing", "pi_2", 1_000, "JPY")],
        found=[found("short", "pi_1", 7), found("missing", "pi_2", 1_000, "JPY")],
    )
    made.faults.update([*LINE_FAULTS, *(kind for kinds in REPORT_FAULTS for kind in kinds)])
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_what_was_planted_and_found_is_no_difference() -> None:
    assert books().compare() == []


@pytest.mark.parametrize(
    "there",
    [
        [found("short", "pi_1", 7)],
        [found("short", "pi_1", 8), found("missing", "pi_2", 1_000, "JPY")],
        [found("over", "pi_1", 7), found("missing", "pi_2", 1_000, "JPY")],
        [found("short", "pi_1", 7), found("short", "pi_1", 7), found("missing", "pi_2", 1_000, "JPY")],
        [found("short", "pi_1", 7), found("missing", "pi_2", 1_000, "EUR")],
        [*books().found, found("orphan", "pi_3", 1)],
    ],
    ids=["one lost", "another amount", "another class", "twice", "another currency", "one too many"],
)
def test_anything_else_is_a_difference(there: list[Discrepancy]) -> None:
    assert books(found=there).compare() != []


def test_what_two_persons_explained_is_not_found_any_more() -> None:
    repaired = {("short", "pi_1", 7, "EUR")}
    assert books(repaired=repaired, found=[found("missing", "pi_2", 1_000, "JPY")]).compare() == []
    assert books(repaired=repaired).compare() == ["found and not planted: ('short', 'pi_1', 7, 'EUR')"]


def test_a_fault_that_was_never_planted_proves_nothing() -> None:
    made = books()
    del made.faults["split"]
    assert made.compare() == ["never planted: split"]


def test_a_charge_that_is_settled_by_half_is_short_until_the_next_report() -> None:
    half = ("short", "pi_3", 500, "EUR")
    assert books(halves=[half], found=[*books().found, found("short", "pi_3", 500)]).halves_not_found() == []
    for there in ([], [found("short", "pi_3", 501)], [found("missing", "pi_3", 500)]):
        wanted = ["settled by half and not found: ('short', 'pi_3', 500, 'EUR')"]
        assert books(halves=[half], found=there).halves_not_found() == wanted


@pytest.mark.parametrize(
    ("rounds", "paid", "problems"),
    [
        (["ab", "ab"], 2, []),
        (["ab", "a", "a", "ab"], 4, []),  # one of them was away
        (["a", "b", "a"], 3, []),  # the other one has no victim
        (["ab", *6 * "a"], 6, ["no charge came to b after its victims"]),
    ],
)
def test_every_processor_of_a_victim_has_a_younger_charge(
    rounds: list[str], paid: int, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SOAK_YOUNGER_TRIES_MAX", 5)
    monkeypatch.setattr(limits, "SOAK_YOUNGER_PAUSE_S", 0.0)
    made, left = Books(), iter(rounds)

    async def pay(count: int) -> list[Victim]:
        return [Victim(intent_id=f"pi_{n}", processor=n, amount=count, currency="EUR") for n in next(left)]

    asyncio.run(Settlements({}, pay, made).report())
    assert (len(rounds) - len(list(left)), made.problems) == (paid, problems)


def test_a_processor_that_was_away_is_waited_for_until_routing_forgets_it() -> None:
    avoided_s = payments_limits.PROCESSOR_HEALTH_WINDOW_S + payments_limits.PROCESSOR_HEALTH_KEPT_S
    assert avoided_s < (limits.SOAK_YOUNGER_TRIES_MAX - 1) * limits.SOAK_YOUNGER_PAUSE_S


def test_statements_say_exactly_what_is_planted(tmp_path: Path) -> None:
    payouts = [Payout(name=f"po_{n}", line_id=f"ln_{n}", amount=a, currency=c) for n, (a, c) in enumerate(
        [(1_000, "JPY"), (25_001, "CLF"), (-300, "JPY")])]  # fmt: skip
    made = Books(payouts={payout.name: payout for payout in payouts})
    entries: dict[str, int] = {}
    findings = {}
    for file in write_statements(tmp_path, made):
        with file.path.open("rb") as stream:
            for part in read_statements(stream):
                if isinstance(part, Entry):
                    entries[part.names[0]] = part.amount
                elif isinstance(part, Statement):
                    findings[part.id] = part.refusals
    assert entries == {"po_0": 999, "soak-stranger": 1_234, "po_1": 25_001, "po_2": -300, "soak-lie": 1_234}
    assert [name for name, wrong in findings.items() if wrong] == ["soak-lies"]
    assert made.planted == [
        ("bank_difference", "ln_0", 1, "JPY"),
        ("bank_unmatched", "bank:NL00SOAK/soak-JPY", 1_234, "JPY"),
        ("statement_does_not_foot", "soak-lies", 5, "EUR"),
    ]


def test_the_bank_says_of_each_payout_what_its_end_is(tmp_path: Path) -> None:
    made = Books()
    payouts = [MadePayout(id=f"pt_{end}", merchant="m", amount=70, currency="EUR", end=end) for end in ENDS]
    booked: dict[str, list[int]] = {}
    for file in write_statements(tmp_path, made, payouts):
        with file.path.open("rb") as stream:
            for part in read_statements(stream):
                if isinstance(part, Entry):
                    booked.setdefault(part.names[0], []).append(part.amount)
                elif isinstance(part, Statement) and part.id != "soak-lies":
                    assert part.refusals == []
    del booked["soak-lie"]
    assert booked == {"pt_paid": [-70], "pt_told_paid": [-70], "pt_returned": [-70, 70], "pt_off": [-71]}
    assert made.planted == [("bank_difference", "pt_off", 1, "EUR"), ("statement_does_not_foot", "soak-lies", 5, "EUR")]
    assert {payout.end: payout.state for payout in payouts} == {
        "paid": "paid", "told_paid": "paid", "returned": "failed", "told_failed": "failed", "off": "pending",
        "canceled": "canceled",
    }  # fmt: skip


def test_the_policies_can_be_published_and_say_what_the_plans_say() -> None:
    rules = risk.read_policy(1, policies.canonical("risk", risk_document(), ()))
    names = ("simulator", "simulator_b")
    for pins in (False, True):
        routing.read_policy(1, policies.canonical("routing", routing_document(names, pins=pins), names))
    for kind in KINDS:
        customer, of_card = countries(kind.risk)
        facts = structs.replace(NOTHING_KNOWN, customer_country=customer, card_country=of_card)
        verdict = risk.judge(rules, facts)
        decided_by = ", ".join(reason.rule for reason in verdict.reasons if not reason.shadow)
        assert any(reason.shadow for reason in verdict.reasons), "it would stop everything, and decides nothing"
        wanted = ASSESSED[kind.risk][:1] or [("allow", "", "")]
        assert [(verdict.outcome, "", decided_by)] == wanted, kind.name


def test_a_shop_notices_what_comes_out_of_order_and_forgives_repeats() -> None:
    shop = Shop(taken={"m": {"pi_1": [1, 2, 2, 3], "pi_2": [2, 1], "pi_3": [1, 2, 1]}})
    assert shop.out_of_order() == ["webhooks of pi_2 came as versions [2, 1]"]


def test_one_difference_fails_the_soak() -> None:
    proofs = [Proof(name="a", says="", problems=[]), Proof(name="b", says="", problems=["x"])]
    verdict = Verdict(seed=5, figures={"payments": 2}, by_kind={}, disturbances=[], proofs=proofs)
    assert verdict.line(9.6) == "SOAK FAILED seed=5 payments=2 disturbances=0 proofs=2 problems=1 seconds=10"
    assert [proof["holds"] for proof in verdict.as_object(1)["proofs"]] == [True, False]
    assert Verdict(seed=5, figures={}, by_kind={}, disturbances=[], proofs=proofs[:1]).is_ok


def test_a_plan_of_a_lost_dispute_leaves_nothing_to_refund() -> None:
    kind = next(kind for kind in KINDS if kind.name == "disputed in part, rest refunded")
    plan = Plan(number=0, kind=kind, merchant="m", amount=1_001, currency="JPY", seed="s")
    assert (plan.received, plan.lost, plan.refunded) == (1_001, 400, 601)
