"""Settlement reports of the simulator: everything once, with exactly the lies that were asked for."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from compose.simulator import limits
from tests.worlds.payments.simulator_process import Simulator, running

COLUMNS = "line_id,report_id,type,operation_id,reference,provider_ref,currency,gross,fee,net,created"


def settle(simulator: Simulator, *faults: dict[str, Any]) -> dict[str, Any]:
    answer = simulator.client.post("/settlements", json={"faults": list(faults)})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def text_of(simulator: Simulator, report_id: str) -> str:
    answer = simulator.client.get(f"/settlements/{report_id}")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/csv")
    return answer.text


def lines_of(simulator: Simulator, report_id: str) -> list[dict[str, Any]]:
    text = text_of(simulator, report_id)
    assert text.partition("\n")[0] == COLUMNS
    rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(text)))
    for row in rows:
        row |= {name: int(row[name]) for name in ("gross", "fee", "net")}
        assert row["net"] == row["gross"] - row["fee"]
        assert row["report_id"] == report_id
    return rows


def amounts(rows: list[dict[str, Any]], reference: str) -> list[tuple[str, int, int]]:
    return [(row["type"], row["gross"], row["fee"]) for row in rows if row["reference"] == reference]


def test_a_report_settles_everything_once(tmp_path: Path) -> None:
    """Captures with their fee, refunds, disputes and reversals; the payout is what is left of the nets, per currency."""
    with running(tmp_path) as simulator:
        taken = simulator.captured("op_1", 1_250, reference="pi_1")  # 60 basis points of it are 7.5: 8, half up
        simulator.captured("op_2", 10_000, reference="pi_2", currency="EUR")
        simulator.post("op_3", token="tok_sim_decline", reference="pi_3")
        simulator.post("op_4", "refund", 250, reference="pi_1", parent=taken)
        failing = simulator.captured("op_5", 500, reference="pi_5", token="tok_sim_refund_fails_later")
        simulator.post("op_6", "refund", 500, reference="pi_5", parent=failing)
        dispute = simulator.client.post("/disputes", json={"reference": "pi_2", "amount": 300}).json()["id"]
        simulator.client.post(f"/disputes/{dispute}/close", json={"outcome": "won"})
        report_id = settle(simulator)["report_id"]
        rows = lines_of(simulator, report_id)
        assert amounts(rows, "pi_1") == [("charge", 1_250, 8), ("refund", -250, 0)]
        assert amounts(rows, "pi_2") == [
            ("charge", 10_000, 60),
            ("dispute", -300, limits.SIMULATOR_DISPUTE_FEE_MINOR),
            ("dispute_reversal", 300, 0),
        ]
        assert amounts(rows, "pi_5") == [("charge", 500, 3)]  # a refund that is bound to fail never leaves the bank
        payouts = {row["currency"]: row["net"] for row in rows if row["type"] == "payout"}
        assert payouts == {"USD": -(1_242 - 250 + 497), "EUR": -(9_940 - 1_800 + 300)}
        assert [row["type"] for row in rows[-2:]] == ["payout", "payout"]
        assert all(sum(r["net"] for r in rows if r["currency"] == c) == 0 for c in payouts)
        assert len({row["line_id"] for row in rows}) == len(rows)
        assert lines_of(simulator, settle(simulator)["report_id"]) == []
        simulator.captured("op_7", 100, reference="pi_7")
        assert amounts(lines_of(simulator, settle(simulator)["report_id"]), "pi_7") == [("charge", 100, 1)]


def test_each_fault_is_planted_where_it_was_asked_for_and_nowhere_else(tmp_path: Path) -> None:
    """The fee stays that of the truth, so a line is off by the planted amount and by nothing else."""
    with running(tmp_path) as simulator:
        kinds = ("short", "over", "missing", "duplicate", "sign_flipped", "split", "honest")
        for kind in kinds:
            simulator.captured(f"op_{kind}", 1_001, reference=f"pi_{kind}")
        faults = [{"kind": kind, "reference": f"pi_{kind}"} for kind in kinds[:-1]]
        faults[0] |= {"amount": 7}
        rows = lines_of(simulator, settle(simulator, *faults)["report_id"])
        assert {kind: [line[1:] for line in amounts(rows, f"pi_{kind}")] for kind in kinds} == {
            "short": [(994, 6)],
            "over": [(1_002, 6)],
            "missing": [],
            "duplicate": [(1_001, 6), (1_001, 6)],
            "sign_flipped": [(-1_001, -6)],
            "split": [(500, 3), (501, 3)],
            "honest": [(1_001, 6)],
        }
        assert sum(row["net"] for row in rows) == 0
        assert [e["amount"] for e in simulator.client.get("/book").json()["captured"]] == [1_001] * len(kinds)
        later = lines_of(simulator, settle(simulator)["report_id"])
        assert later == []  # what was missing stays missing for ever


def test_a_report_may_come_again_cut_off_or_in_another_time_zone(tmp_path: Path) -> None:
    """A truncated file ends in the middle of a line; sent again it is whole, with the same lines."""
    with running(tmp_path) as simulator:
        for number in range(5):
            simulator.captured(f"op_{number}", 1_000, reference=f"pi_{number}")
        kinds = ("resent", "truncated", "payout_failed", "other_timezone")
        made = settle(simulator, *({"kind": kind} for kind in kinds))
        cut, whole = (text_of(simulator, report_id) for report_id in made["reports"])
        assert not cut.endswith("\n")
        assert whole.replace(made["reports"][1], made["reports"][0]).startswith(cut)
        rows = lines_of(simulator, made["reports"][1])
        assert [row["type"] for row in rows] == ["charge"] * 5 + ["payout", "payout_reversal"]
        assert rows[-1]["net"] == -rows[-2]["net"] == 5 * 994
        assert all(row["created"].endswith("+02:00") for row in rows)
        listed = simulator.client.get("/settlements").json()
        assert [entry["report_id"] for entry in listed] == made["reports"]
        assert all(entry["created"].endswith("Z") for entry in listed)


def test_a_charge_may_be_settled_over_two_days(tmp_path: Path) -> None:
    """Half of it now, the rest with whatever the next report has; amount and fee add up to the charge's."""
    with running(tmp_path) as simulator:
        simulator.captured("op_1", 1_001, reference="pi_1")
        simulator.captured("op_2", 1, reference="pi_2")
        answer = simulator.client.post(
            "/settlements", json={"faults": [{"kind": "split_over_days", "reference": "pi_2"}]}
        )
        assert answer.status_code == 422, "one minor unit has no half"
        first = lines_of(simulator, settle(simulator, {"kind": "split_over_days", "reference": "pi_1"})["report_id"])
        simulator.captured("op_3", 100, reference="pi_3")
        second = lines_of(simulator, settle(simulator)["report_id"])
        assert (amounts(first, "pi_1"), amounts(first, "pi_2")) == ([("charge", 500, 3)], [("charge", 1, 0)])
        assert (amounts(second, "pi_1"), amounts(second, "pi_3")) == ([("charge", 501, 3)], [("charge", 100, 1)])
        assert {row["operation_id"] for row in (*first, *second) if row["reference"] == "pi_1"} == {"op_1"}
        assert sum(row["net"] for row in first) == sum(row["net"] for row in second) == 0


@pytest.mark.faults
def test_reports_never_change_and_outlive_kill_9(tmp_path: Path) -> None:
    with running(tmp_path) as simulator:
        simulator.captured("op_1", reference="pi_1")
        report_id = settle(simulator)["report_id"]
        before = text_of(simulator, report_id)
        simulator.captured("op_2", reference="pi_2")
        simulator.kill_and_restart()
        assert text_of(simulator, report_id) == before
        assert amounts(lines_of(simulator, settle(simulator)["report_id"]), "pi_2") == [("charge", 100, 1)]


def test_a_fault_that_cannot_be_planted_changes_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as simulator:
        simulator.captured("op_1", 10, reference="pi_1")
        for faults in (
            [{"kind": "short", "reference": "pi_none"}],
            [{"kind": "duplicate", "reference": "pi_1"}, {"kind": "missing", "reference": "pi_1"}],
            [{"kind": "short", "reference": "pi_1", "amount": 10}],
            [{"kind": "short"}],
            [{"kind": "burnt", "reference": "pi_1"}],
            [{"kind": "over", "reference": "pi_1", "amount": 0}],
            [{"kind": "resent"}] * (limits.SIMULATOR_SETTLEMENT_FAULTS_MAX + 1),
        ):
            answer = simulator.client.post("/settlements", json={"faults": faults})
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_operation")
        assert simulator.client.get("/settlements").json() == []
        assert simulator.client.get("/settlements/rpt_none").status_code == 404
        rows = lines_of(simulator, settle(simulator)["report_id"])
        assert amounts(rows, "pi_1") == [("charge", 10, 0)]
