"""Every code has one status, and an answer looks the same whichever way it goes out."""

from __future__ import annotations

import json

from ingress.http import answers, problems
from schemas import errors
from schemas.services import OPERATIONS
from tests.each import each

CREATE = OPERATIONS["create_payment_intent"]
CONFIRM = OPERATIONS["confirm_payment_intent"]
BODY = b'{"result":{"id":"pi_1","version":3},"event":{"event_id":"evt_1"}}'


def every_error() -> list[type[errors.PlatformError]]:
    found, todo = [], [errors.Rejected, errors.Unavailable]
    while todo:
        kind = todo.pop()
        found.append(kind)
        todo += kind.__subclasses__()
    return [kind for kind in found if "code" in vars(kind)]


@each("kind", every_error())
def test_every_error_that_can_reach_a_caller_has_a_row(kind: type[errors.PlatformError]) -> None:
    assert kind.code in problems.TABLE


@each("code", sorted(problems.TABLE))
def test_a_problem_has_the_members_of_the_rfc(code: str) -> None:
    problem = json.loads(problems.render(code, "why", {"status": 1, "code": "x", "current_version": 7}))
    row = problems.TABLE[code]
    assert (problem["status"], problem["code"], problem["title"]) == (row.status, code, row.title)
    assert problem["type"].startswith("urn:")
    assert (problem["detail"], problem["current_version"]) == ("why", 7)
    headers = problems.headers_of(code)
    assert ("Retry-After" in headers) == row.retry
    assert ("WWW-Authenticate" in headers) == (row.status == 401)


def test_a_refusal_that_nobody_gave_a_row_is_the_callers_to_mend() -> None:
    answer = answers.refused(b'{"code": "amount_exceeds_capturable", "detail": "d", "capturable": 5}', replayed=False)
    problem = json.loads(answer.body)
    assert (answer.status, problem["code"], problem["capturable"]) == (422, "amount_exceeds_capturable", 5)


def test_context_of_an_error_stays_inside() -> None:
    assert b"secret" not in problems.of_error(errors.Unavailable(dsn="secret"))


def test_a_created_object_is_told_with_its_place_and_version() -> None:
    answer = answers.committed(CREATE, BODY, replayed=False)
    response = answers.response(answer, "wait=5", "r1")
    assert (response.status_code, response.body) == (201, BODY)
    assert response.headers["location"] == "/v1/payment_intents/pi_1"
    assert response.headers["etag"] == '"3"'
    assert response.headers["preference-applied"] == "wait=5"
    assert "idempotency-replayed" not in response.headers


def test_a_replay_differs_in_one_header_only() -> None:
    """Rule: the same identity gets the same status and the same bytes."""
    refusal = b'{"code":"state_conflict","detail":"no","current_state":"canceled"}'
    for first, again in (
        (answers.committed(CONFIRM, BODY, replayed=False), answers.committed(CONFIRM, BODY, replayed=True)),
        (answers.refused(refusal, replayed=False), answers.refused(refusal, replayed=True)),
    ):
        one, two = answers.response(first, None, None), answers.response(again, None, None)
        assert (one.status_code, one.body) == (two.status_code, two.body)
        assert set(dict(two.headers).items()) - set(dict(one.headers).items()) == {("idempotency-replayed", "true")}


def test_lines_carry_what_responses_carry() -> None:
    committed = json.loads(answers.line(answers.committed(CREATE, BODY, replayed=True)))
    assert committed == {"status": 201, "replayed": True, **json.loads(BODY)}
    failed = json.loads(answers.line(answers.failed(errors.NotFound())))
    assert (failed["status"], failed["problem"]["code"]) == (404, "not_found")
    conflict = json.loads(answers.line(answers.failed(errors.StateConflict("no", "running"))))["problem"]
    assert (conflict["code"], conflict["detail"], conflict["current_state"]) == ("state_conflict", "no", "running")
    assert json.loads(answers.line(answers.pending("r1"))) == {"status": 202, "request_id": "r1"}


def test_a_pending_command_is_told_with_where_to_ask() -> None:
    response = answers.response(answers.pending("r1"), "respond-async", "r1")
    assert (response.status_code, json.loads(response.body)) == (202, {"request_id": "r1", "status": "pending"})
    assert response.headers["location"] == "/v1/operations/r1"
