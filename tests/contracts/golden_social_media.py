"""The golden records of media, moderation and what is one's own: one for every newest version."""

from __future__ import annotations

from typing import Any, Final

_SHA256: Final = "ab" * 32
_CASE: Final = "mc_aaaaaaaaaaaaaaaaaaaa"
_DECISION: Final = {"decision_id": "mo_aaaaaaaaaaaaaaaaaaaa_bbbbbbbbbb"}
_REASON: Final = {"reason": "Spaß", "policy_version": 3}


def records(envelope: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By record name; commands in the envelope."""
    users = envelope | {"aggregate_key": "user:u_1", "scope": "user:u_1"}
    cases = envelope | {"aggregate_key": _CASE, "scope": "user:u_1"}
    parts = [{"bytes": 1_024, "sha256": _SHA256}, {"bytes": 7, "sha256": _SHA256}]
    upload = {"mime": "image/png", "bytes": 1_031, "sha256": _SHA256, "parts": parts, "expires_in_s": 60}
    medium, post = {"media_id": "md_golden"}, {"object_id": "po_golden"}
    label = {"decision": "label", "label": "Ü", "expires_at": "2030-01-01T00:00:00+00:00"}
    payloads = {
        "InitiateUpload": (users, upload),
        "RecordScan": (users, medium | {"outcome": "ready", "manifest": '{"version":1}'}),
        "ExpireUpload": (users, medium),
        "DeleteUpload": (users, medium),
        "ReportObject": (cases, post | {"reason": "spam", "comment": "ä"}),
        "AssignCase": (cases, post),
        "DecideCase": (cases, post | _REASON | label | {"object_version": 4, "beside": True}),
        "AppealDecision": (cases, _DECISION | {"text": "nein"}),
        "DecideAppeal": (cases, {"appeal_id": "ap_golden", "outcome": "reversed"} | _REASON),
        "ExpireDecision": (cases, _DECISION),
        "RequestExport": (users, {}),
        "EraseUser": (users, {"confirm": "u_1"}),
        "CertifyErasure": (users, {"erasure_id": "er_golden", "jws": "a.b.c", "reachable": 0}),
    }
    found = {name: head | {"payload": payload} for name, (head, payload) in payloads.items()}
    for name in ("ReportObject", "AppealDecision"):
        found[name]["signals"] = {"sealed": "AAECAwQF"}
    return found | {"CompleteUpload": users | {"payload": medium, "signals": {"assembled": "ok"}}}
