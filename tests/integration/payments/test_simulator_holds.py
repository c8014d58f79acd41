"""Captures and voids share out what an authorization holds, and never pass it."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.worlds.payments.simulator_process import Simulator, key, simulator

__all__ = ["key", "simulator"]


def test_several_captures_then_a_void_share_out_the_hold(simulator: Simulator, key: str) -> None:
    parent = simulator.post(key, "authorize", 1_000).json()["provider_ref"]
    parts = {f"{key}_{number}": amount for number, amount in enumerate((300, 450, 1))}
    for part, amount in parts.items():
        assert simulator.post(part, "capture", amount, parent=parent, final=False).json()["status"] == "captured"
    too_much = simulator.post(f"{key}_more", "capture", 250, parent=parent).json()
    assert (too_much["status"], too_much["decline_code"]) == ("failed", "amount_exceeds_remainder")
    voided = simulator.post(f"{key}_void", "void", 249, parent=parent).json()
    assert (voided["status"], voided["amount"]) == ("voided", 249)
    again = simulator.post(f"{key}_void_again", "void", 249, parent=parent).json()
    assert (again["status"], again["decline_code"]) == ("failed", "authorization_closed")
    assert simulator.book(key, *parts, f"{key}_more", f"{key}_void", f"{key}_void_again") == {
        "captured": parts,
        "authorized": {key: 1_000},
        "voided": {f"{key}_void": 249},
        "refunded": {},
    }


def test_a_final_capture_releases_the_rest_without_a_voided_entry(simulator: Simulator, key: str) -> None:
    parent = simulator.post(key, "authorize", 1_000).json()["provider_ref"]
    assert simulator.post(f"{key}_c", "capture", 400, parent=parent, final=True).json()["amount"] == 400
    for kind in ("capture", "void"):
        late = simulator.post(f"{key}_{kind}", kind, 1, parent=parent).json()
        assert (late["status"], late["decline_code"]) == ("failed", "authorization_closed")
    assert simulator.book(key, f"{key}_c", f"{key}_capture", f"{key}_void") == {
        "captured": {f"{key}_c": 400},
        "authorized": {key: 1_000},
        "voided": {},
        "refunded": {},
    }


def test_captures_race_for_one_hold_and_never_pass_it(simulator: Simulator, key: str) -> None:
    """Twenty captures of 30 on a hold of 100: exactly three fit."""
    parent = simulator.post(key, "authorize", 100).json()["provider_ref"]
    keys = [f"{key}_{number}" for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda k: simulator.post(k, "capture", 30, parent=parent, final=False), keys))
    assert Counter(answer.json()["status"] for answer in answers) == {"captured": 3, "failed": 17}
    assert sum(simulator.book(*keys)["captured"].values()) == 90


def test_a_manual_capture_can_be_lost_too(simulator: Simulator, key: str) -> None:
    """A capture follows its authorization's card, with a fault of its own."""
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.post(key, "authorize", token="tok_sim_timeout_after_commit")
    parent = simulator.query(key).json()["provider_ref"]
    with pytest.raises(httpx.RemoteProtocolError):
        simulator.post(f"{key}_c", "capture", parent=parent)
    assert simulator.post(f"{key}_c", "capture", parent=parent).json()["status"] == "captured"
    assert simulator.book(f"{key}_c")["captured"] == {f"{key}_c": 100}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"parent": "sim_none"}, "unknown_authorization"),
        ({"currency": "EUR"}, "currency_mismatch"),
        ({"reference": "pi_other"}, "reference_mismatch"),
    ],
)
def test_a_capture_of_something_else_fails(simulator: Simulator, key: str, changes: dict[str, str], code: str) -> None:
    parent = simulator.post(key, "authorize").json()["provider_ref"]
    answer = simulator.post(f"{key}_c", "capture", **({"parent": parent} | changes))
    assert (answer.status_code, answer.json()["status"], answer.json()["decline_code"]) == (200, "failed", code)
    assert simulator.query(f"{key}_c").json() == answer.json()
    assert simulator.book(f"{key}_c")["captured"] == {}
