"""The proof of who sent a record, and what each sender may say."""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from dataflows.owner.senders import Senders
from ingress.identity.issuer import SCOPES_OF, STAFF_KIND
from reconciliation.check.invariant import invariants
from schemas import senders
from schemas.operation import Named
from schemas.senders import (
    INGRESS,
    OUTSIDE,
    PARKED,
    PROCESSOR_WORKER,
    PUBLISHER,
    REPAIRS,
    ROLES,
    Sender,
    of_worker,
    speaks_for,
)
from schemas.services import OPERATIONS, SERVICES, senders_to
from sinks.kafka.sender_keys import SenderKeys
from tests.each import each
from tests.worlds.payments.payment_cases import create

if TYPE_CHECKING:
    from pathlib import Path

    from schemas.service import Service

WORKERS = tuple(worker.name for service in SERVICES for worker in service.workers)
CALLERS = ("m_1", "tenant:a", "user:b")


@pytest.mark.parametrize("length", [1, 32, 64])
def test_the_mac_is_hmac_sha_256_over_what_is_written_down(length: int) -> None:
    """Anybody can make it with a library: the first blocks are only hashed ahead."""
    key = bytes(range(length))
    said = b"commands.payments.v1\0erp\0" + (4).to_bytes(4, "big") + b"pi_1" + b"value"
    sender = Sender("erp", key)
    for _ in range(2):
        assert sender.mac("commands.payments.v1", b"pi_1", b"value") == hmac.digest(key, said, "sha256")
    assert sender.mac("commands.payments.v1", b"pi_1v", b"alue") != sender.mac(
        "commands.payments.v1", b"pi_1", b"value"
    )
    assert "1" not in repr(sender)


def test_every_operation_says_who_may_send_it_and_internal_ones_no_caller() -> None:
    for operation in OPERATIONS.values():
        assert operation.senders, operation.name
        assert set(operation.senders) <= {*ROLES, *map(of_worker, WORKERS)}, operation.name
        by_callers = operation.is_callers or operation.document  # which the ingress seals: no producer has the keys
        assert (INGRESS in operation.senders) == by_callers, operation.name


def test_what_a_caller_calls_is_sent_by_a_role_that_speaks_for_callers() -> None:
    called = [operation for operation in OPERATIONS.values() if operation.scope is not None]
    assert any(operation.audited for operation in called)
    for operation in called:
        for role in operation.senders:
            assert all(speaks_for(role, scope) for scope in CALLERS), (operation.name, role)


def test_a_role_of_one_scope_speaks_in_no_other_that_begins_alike() -> None:
    spoken = {(role, one) for role, scopes in senders._SCOPES.items() for one in scopes if one and one[-1] != ":"}
    assert spoken == {
        ("repairs", "ledger:repair"),
        ("repairs", "operator:approved"),
        ("reconcile", "ledger:reconciliation"),
    }
    for role, scope in spoken:
        assert speaks_for(role, scope)
        assert not speaks_for(role, f"{scope}2")
        assert not speaks_for(role, scope[:-1])


def test_a_program_outside_may_send_what_a_token_of_its_kind_alone_suffices_for() -> None:
    """Its key names whom it speaks for, and no scopes of tokens: what staff and moderators call is not among it."""
    kinds = {scope: kind for kind, scopes in SCOPES_OF.items() if kind != STAFF_KIND for scope in scopes}
    for operation in OPERATIONS.values():
        by = {
            kind
            for kind, scope in zip(("merchant", "tenant", "user"), CALLERS, strict=True)
            if operation.is_from_outside(scope)
        }
        assert by == ({kinds[operation.scope]} if operation.is_callers and operation.scope in kinds else set()), (
            operation.name
        )
    refused = {o.name for o in OPERATIONS.values() if o.is_callers and not any(map(o.is_from_outside, CALLERS))}
    assert {"shred_tenant_keys", "delete_tenant", "grant_credit", "start_migration", "decide_case"} <= refused


def test_a_program_outside_takes_no_id_that_the_call_of_another_merchant_is_to_have(tmp_path: Path) -> None:
    """Who knows a name and guesses the next key reckons that id; in its place an object would refuse the call for ever."""
    keys = SenderKeys(tmp_path / "senders", frozenset())
    keys.add("erp", ("m_1",))
    known = Senders(keys)
    known.look()
    making = OPERATIONS["create_payment_intent"]

    def why_not(aggregate_key: str) -> str | None:
        one = structs.replace(create(), scope="m_1", idempotency_key="order-1", aggregate_key=aggregate_key)
        return known.why_not("producer.erp", one, making, aggregate_key.encode())

    def of(scope: str, key: str) -> str:
        return making.aggregate_key(Named(path_id=None, payload={}, scope=scope, idempotency_key=key))

    assert [why_not(key) for key in (of("m_1", "order-1"), "pi_erp_0001", "pi_" + "a" * 25, "pi_" + "a1" * 13)] == [
        None
    ] * 4
    assert [why_not(key) for key in (of("m_2", "order-1"), of("m_1", "order-2"))] == ["key_of_another"] * 2
    confirming = OPERATIONS["confirm_payment_intent"]
    theirs = structs.replace(create(), scope="m_1", operation=confirming.name, aggregate_key=of("m_1", "order-2"))
    assert known.why_not("producer.erp", theirs, confirming, theirs.aggregate_key.encode()) is None


def test_what_is_sent_for_persons_is_what_an_owner_looks_up(tmp_path: Path) -> None:
    """The key of repairs tells no fact in a processor's own name, and no attempt's in that of another's proposal."""
    keys = SenderKeys(tmp_path / "senders", frozenset({REPAIRS, PROCESSOR_WORKER}))
    keys.ensure()
    known = Senders(keys)
    known.look()
    telling = OPERATIONS["record_attempt_outcome"]

    def why_not(sender: str, key: str) -> str | None:
        one = structs.replace(create(), operation=telling.name, scope="processor:simulator", idempotency_key=key)
        one.payload = {"operation_id": "op_case_1", "status": "captured"}
        return known.why_not(sender, one, telling, one.aggregate_key.encode())

    assert why_not(REPAIRS, "op_case_1:ao_1") is None
    for key in ("op_case_1:captured", "op_case_2:ao_1", "op_case_1:pending:ao_1", "ao_1", ""):
        assert why_not(REPAIRS, key) == "operation_not_allowed"
        assert why_not(PROCESSOR_WORKER, key) is None


@each("role", [INGRESS, PUBLISHER])
@each("scope", ["ledger:x", "processor:simulator", "settlement:a", "operator:by_1", "quota:q"])
def test_the_ingress_speaks_for_callers_alone(scope: str, role: str) -> None:
    assert not speaks_for(role, scope)
    assert all(speaks_for(role, caller) for caller in CALLERS)


def test_keys_are_private_made_once_and_go_with_their_file(tmp_path: Path) -> None:
    keys = SenderKeys(tmp_path / "senders", frozenset(ROLES))
    keys.ensure()
    first = keys.senders(ROLES)
    keys.ensure()
    assert [one.mac("t", b"", b"") for one in keys.senders(ROLES)] == [one.mac("t", b"", b"") for one in first]
    assert len({one.mac("t", b"", b"") for one in first}) == len(ROLES)
    file = keys.add("erp", ("m_1",))
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "senders").iterdir()} == {0o600}
    assert (tmp_path / "senders").stat().st_mode & 0o777 == 0o700
    known = keys.known()
    assert known.keys() == {role.encode() for role in ROLES} | {(OUTSIDE + "erp").encode()}
    assert (known[b"producer.erp"].scopes, known[INGRESS.encode()].scopes) == (("m_1",), None)
    assert keys.outside() == {"erp": ("m_1",)}
    with pytest.raises(ValueError, match="there is a producer"):
        keys.add("erp", ("m_2",))
    for name in ("", "A", "../x", "a.b", "x" * 41):
        with pytest.raises(ValueError, match="no producer's name"):
            keys.add(name, ("m_1",))
    seen = keys.changed_at()
    keys.remove("erp")
    assert (keys.changed_at() != seen, file.exists(), keys.outside()) == (True, False, {})


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_an_owner_knows_the_keys_of_its_own_senders_alone(tmp_path: Path, service: Service) -> None:
    """A key that verifies also signs: no owner can speak as a worker of another service, or as who never speaks to it."""
    workers = {role for o in OPERATIONS.values() for role in o.senders if role.startswith("worker.")}
    everybody = SenderKeys(tmp_path / "senders")
    everybody.ensure(*workers)
    everybody.add("erp", ("m_1",))
    believed = senders_to(service.commands_topic)
    may_send = {role for o in service.operations if o.topic == service.commands_topic for role in o.senders}
    of_others = {role for o in OPERATIONS.values() if o.service != service.name for role in o.senders} - may_send
    for role in {*ROLES, *workers} - believed:  # what is opened, is told
        (tmp_path / "senders" / f"{role}.json").write_text("not to be read")
    found = {name.decode() for name in everybody.of(believed).known()}
    assert found == may_send | {PARKED, "producer.erp"}
    assert of_others
    assert not found & of_others


def test_the_invariant_of_senders_knows_the_same_rules() -> None:
    """It is SQL, and stands beside what owners decide by: a role that is new here is missed there."""
    (sql,) = (invariant.sql for invariant in invariants() if invariant.id == "senders")
    rules, internal = sql.split("internal (scope)")
    found = set(re.findall(r"\('(\w+)', '([a-z:]*)'\)", rules))
    known = {(role, beginning) for role, beginnings in senders._SCOPES.items() for beginning in beginnings}
    assert found == known - {(PARKED, "")}  # which the operator's retry stands for
    assert set(re.findall(r"\('([a-z]+:)'\)", internal)) == set(senders._INTERNAL)
