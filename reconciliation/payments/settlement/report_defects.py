"""What is wrong with a report itself: lines that cannot be read, its end that is missing, lines that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reconciliation.payments.settlement.line import Defect, UnreadableReport
from reconciliation.payments.settlement.store import Found
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reconciliation.payments.settlement.line import Line, PlainRow

#: what makes a line another one, in the order of the statement ``changed_lines``
_CONTENT: Final = ("type", "currency", "gross", "fee", "net")


def readable(lines: Iterable[Line | PlainRow | Defect], defects: list[Defect]) -> Iterator[Line | PlainRow]:
    """The lines; defects are put aside, a bounded number of them."""
    for line in lines:
        if not isinstance(line, Defect):
            yield line
        elif len(defects) < limits.SETTLEMENT_DEFECTS_MAX or line.is_cut_off:
            defects.append(line)
        else:
            raise UnreadableReport(f"more than {limits.SETTLEMENT_DEFECTS_MAX} lines cannot be read")


def is_cut_off(defects: list[Defect]) -> bool:
    """Whether the report ends before its end."""
    return bool(defects) and defects[-1].is_cut_off


def defect_found(report_id: str, defect: Defect) -> Found:
    """The finding about a line that cannot be read, or about the end."""
    place = f"{report_id}#{defect.line_no}"
    return Found(
        subject=report_id if defect.is_cut_off else place,
        found_class="truncated_report" if defect.is_cut_off else "unreadable_line",
        reference=report_id if defect.is_cut_off else place,
        amount=0,
        detail=f"line {defect.line_no} {defect.reason}",
    )


def changed_found(row: tuple[Any, ...]) -> Found:
    """The finding about a line that said something else before: by how much, and of what."""
    number, line_id, operation_id, reference, intent_id, is_news, *contents = row
    now, before = contents[: len(_CONTENT)], contents[len(_CONTENT) :]
    kind, currency, gross, _, net = now
    changed = [at for at in range(len(_CONTENT)) if now[at] != before[at]]
    is_other_money = now[:2] != before[:2]  # of another kind or currency: the whole line is another one
    return Found(
        subject=line_id,
        found_class="changed_line",
        reference=intent_id or reference or operation_id or line_id,
        amount=abs(gross or net) if is_other_money else abs(now[changed[0]] - before[changed[0]]),
        currency=currency,
        line_id=line_id,
        detail=f"{kind} in line {number} says {_said(now, changed)} now and said {_said(before, changed)} before",
        version=":".join(map(str, now)),
        is_news=is_news,
    )


def _said(content: list[Any], changed: list[int]) -> str:
    return ", ".join(f"{_CONTENT[at]} {content[at]}" for at in changed)
