"""The rules of matching, proved on their own: whatever lines come in whatever order, nothing is lost or counted twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciliation.payments.settlement.line import Line
from reconciliation.payments.settlement.matching import PAYING, Expected, Settled, Verdict, judge_all

amounts = st.integers(1, 10_000)
signs = st.sampled_from((1, -1))


def lines_of(*gross: int, currency: str = "USD", fees: list[int] | None = None) -> list[Line]:
    return [
        Line(line_no=n, line_id=f"ln_{n}", type="charge", operation_id=None, reference=None, provider_refs=(), currency=currency,
             gross=amount, fee=fee, net=amount - fee, net_currency=currency)
        for n, (amount, fee) in enumerate(zip(gross, fees or [0] * len(gross), strict=True))
    ]  # fmt: skip


def expecting(amount: int, fee: int = 0) -> Expected:
    return Expected(amount=amount, currency="USD", fee=fee)


def booked(verdicts: list[Verdict]) -> int:
    """What the owner books to suspense: a duplicate by its sign, short as a loss, over as a gain."""
    total = 0
    for verdict in verdicts:
        if verdict.posting == "duplicate":
            total += verdict.posted_gross
        elif verdict.posting is not None:
            total += verdict.posted_difference * {"matched": 0, "over": 1, "short": -1}[verdict.posting]
    return total


def settled_by(lines: list[Line], verdicts: list[Verdict]) -> Settled:
    paying = [line for line, verdict in zip(lines, verdicts, strict=True) if verdict.line_class in PAYING]
    return Settled(gross=sum(line.gross for line in paying), fee=sum(line.fee for line in paying), lines=len(paying))


@given(amounts, signs, st.lists(st.integers(-10_000, 10_000), max_size=8))
def test_suspense_is_what_was_paid_less_what_was_expected(amount: int, sign: int, gross: list[int]) -> None:
    lines = lines_of(*gross)
    verdicts = list(judge_all(expecting(sign * amount), Settled(), lines))
    paid = settled_by(lines, verdicts)
    assert booked(verdicts) == (paid.gross - sign * amount if paid.lines else 0)


@given(amounts, signs, st.lists(st.integers(-10_000, 10_000), max_size=8), st.data())
def test_it_is_the_same_over_any_number_of_reports(
    amount: int, sign: int, gross: list[int], data: st.DataObject
) -> None:
    """Posted once and for all: the sum does not depend on where one report ends and the next begins."""
    cut = data.draw(st.integers(0, len(gross)))
    expected, lines = expecting(sign * amount), lines_of(*gross)
    first = list(judge_all(expected, Settled(), lines[:cut]))
    second = list(judge_all(expected, settled_by(lines[:cut], first), lines[cut:]))
    paid = settled_by(lines, first + second)
    assert booked(first + second) == (paid.gross - sign * amount if paid.lines else 0)


@given(amounts, signs, st.lists(st.tuples(st.integers(-10_000, 10_000), st.integers(-50, 50)), max_size=8), st.data())
def test_fees_are_booked_as_they_were_taken(
    amount: int, sign: int, said: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Every line's own, once, over any number of reports: the fee of parts stands with the first of them."""
    cut = data.draw(st.integers(0, len(said)))
    expected = expecting(sign * amount, fee=7)
    lines = lines_of(*(gross for gross, _ in said), fees=[fee for _, fee in said])
    verdicts = list(judge_all(expected, Settled(), lines[:cut]))
    verdicts += judge_all(expected, settled_by(lines[:cut], verdicts), lines[cut:])
    assert sum(v.posted_fee for v in verdicts if v.posting) == settled_by(lines, verdicts).fee


@given(amounts.filter(lambda a: a > 1), signs, st.integers(-50, 50), st.integers(-50, 50))
def test_parts_over_two_reports_are_even_when_their_fees_are(amount: int, sign: int, fee: int, rest_fee: int) -> None:
    """Short at first; what is left explains it, and what their fees are off by is told as such."""
    expected = expecting(sign * amount, fee=20)
    half = sign * (amount // 2)
    first = list(judge_all(expected, Settled(), part := lines_of(half, fees=[fee])))
    (rest,) = judge_all(expected, settled_by(part, first), lines_of(sign * amount - half, fees=[rest_fee]))
    off = abs(fee + rest_fee - 20)
    assert first[0].line_class == ("short" if sign > 0 else "over")
    assert (rest.line_class, rest.difference) == ("fee_difference" if off else "matched", off)
    assert (rest.posting, rest.posted_fee, rest.settles_rest) == ("duplicate", rest_fee, True)


@given(amounts, signs, st.lists(st.integers(-10_000, 10_000), max_size=8))
def test_a_movement_settles_once(amount: int, sign: int, gross: list[int]) -> None:
    """The merchant's share matures with one line; every other one is only a difference."""
    verdicts = list(judge_all(expecting(sign * amount), Settled(), lines_of(*gross)))
    assert sum(verdict.posting in ("matched", "short", "over") for verdict in verdicts) <= 1


@given(amounts, signs, st.integers(2, 6), st.data())
def test_parts_that_add_up_are_one_settlement(amount: int, sign: int, count: int, data: st.DataObject) -> None:
    amount += count
    cuts = sorted(data.draw(st.lists(st.integers(1, amount - 1), min_size=count - 1, max_size=count - 1, unique=True)))
    parts = [sign * (end - begin) for begin, end in zip([0, *cuts], [*cuts, amount], strict=True)]
    verdicts = list(judge_all(expecting(sign * amount), Settled(), lines_of(*parts)))
    assert {verdict.line_class for verdict in verdicts} == {"matched"}
    assert [verdict.posting for verdict in verdicts] == ["matched"] + [None] * (count - 1)
    assert verdicts[0].posted_gross == sign * amount


@given(amounts.filter(lambda a: a > 1), signs)
def test_one_mutation_is_one_verdict(amount: int, sign: int) -> None:
    expected = expecting(sign * amount)

    def classes(*gross: int) -> list[str]:
        return [verdict.line_class for verdict in judge_all(expected, Settled(), lines_of(*gross))]

    whole = sign * amount
    assert classes(whole) == ["matched"]
    assert classes(whole - 1) == ["short"]
    assert classes(whole + 1) == ["over"] or whole == -1
    assert classes(whole, whole) == ["matched", "duplicate"]
    assert classes(-whole) == ["sign_flipped"]
    assert [v.line_class for v in judge_all(expected, Settled(), lines_of(whole, currency="EUR"))] == [
        "currency_mismatch"
    ]


def test_lines_without_end_are_judged_as_they_come() -> None:
    """Memory: a hostile report has a million lines for one capture."""

    def endless() -> object:
        n = 0
        while True:
            yield lines_of(1_000)[0]
            n += 1

    verdicts = judge_all(expecting(1_000), Settled(), endless())  # type: ignore[arg-type]  # a generator of lines
    assert [next(verdicts).line_class for _ in range(3_000)] == ["matched"] + ["duplicate"] * 2_999


@given(amounts, amounts, st.booleans(), st.integers(0, 3))
def test_what_is_taken_back_of_a_charge_is_part_of_it(amount: int, back: int, is_first: bool, reports: int) -> None:
    """A processor tells the whole of a partial capture, and takes the rest back: before or after, then or later."""
    whole, taken_back = lines_of(amount + back, -back, fees=[30, 0])
    taken_back.type = "capture_reversal"
    lines = [taken_back, whole] if is_first and not reports else [whole, taken_back]
    expected, settled = expecting(amount, 30), Settled()
    verdicts: list[Verdict] = []
    for part in [lines[:1], lines[1:]] if reports else [lines]:
        verdicts += judge_all(expected, settled, part)
        settled = settled_by(lines[: len(verdicts)], verdicts)
    assert booked(verdicts) == 0
    assert verdicts[-1].line_class == "matched"
    assert sum(verdict.posting != "duplicate" for verdict in verdicts if verdict.posting) == 1


def test_what_is_taken_back_without_a_charge_settles_nothing() -> None:
    (taken_back,) = lines_of(-500)
    taken_back.type = "capture_reversal"
    (verdict,) = judge_all(expecting(1_000), Settled(), [taken_back])
    assert (verdict.line_class, verdict.posting) == ("sign_flipped", None)
    (charge,) = lines_of(1_000)
    (later,) = judge_all(
        expecting(1_000), settled_by([charge], list(judge_all(expecting(1_000), Settled(), [charge]))), [taken_back]
    )
    assert (later.line_class, later.difference, later.posting) == ("short", 500, "duplicate")


@pytest.mark.parametrize(("fee", "net", "verdict"), [(30, -30, ("sign_flipped", 30)), (0, 950, ("does_not_foot", 950))])
@pytest.mark.parametrize("whole", [1_000, -1_000])
def test_a_line_of_no_gross_is_wrong_by_what_it_moved(whole: int, fee: int, net: int, verdict: tuple[str, int]) -> None:
    (line,) = lines_of(0, fees=[fee])
    line.net = net
    (found,) = judge_all(expecting(whole), Settled(), [line])
    assert ((found.line_class, found.difference), found.posting) == (verdict, None)
