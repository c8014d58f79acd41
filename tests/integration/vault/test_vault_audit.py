"""What is done and refused at the vault and at the shell is in the audit log, with nothing of a card, in one sound chain."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ingress import limits
from reconciliation.audit.verify import verify
from tests.eventually import eventually
from tests.integration.operator_shell import MILLRACE
from tests.servers import clean_environment
from tests.worlds.payments.vault_world import Processor, card, processor, world

if TYPE_CHECKING:
    from tests.worlds.payments.vault_world import VaultWorld

__all__ = ["processor", "world"]  # fixtures
pytestmark = [pytest.mark.servers]

NUMBER = "5555555555554444"


def logged(world: VaultWorld, **wanted: str) -> list[tuple[Any, ...]]:
    """(action, object, outcome, code) of the rows of a merchant or an actor, in their order."""
    return world.rows(
        "select action, object, outcome, details ->> 'code' from audit_log"
        " where details ->> 'merchant' = %s or actor = %s order by seq",
        wanted.get("merchant"),
        wanted.get("actor"),
    )


def is_sound(world: VaultWorld) -> bool:
    with psycopg.connect(world.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        return verify(connection).broken_seq is None


def test_tokens_are_logged_once_and_refusals_with_their_code(world: VaultWorld) -> None:
    holder = world.holder()
    first = holder.tokenize(card(NUMBER), key="k").json()["result"]["id"]
    assert holder.tokenize(card(NUMBER), key="k").headers["idempotency-replayed"] == "true"
    assert holder.tokenize(card(), key="k").status_code == 422
    assert holder.tokenize(card("4242424242424241")).status_code == 422
    assert holder.http.delete("/v1/tokens/tok_" + "a" * 24).status_code == 404
    for _ in range(2):
        assert holder.http.delete(f"/v1/tokens/{first}").status_code == 200
    assert logged(world, merchant=holder.name) == [
        ("token.create", first, "done", None),
        ("token.create", "tokens", "refused", "key_reused"),
        ("token.create", "tokens", "refused", "invalid_command"),
        ("token.delete", "tokens", "refused", "not_found"),
        ("token.delete", first, "done", None),
    ]
    # any digits may come in a hash, a time and a name that is made up
    written = (
        "select (to_jsonb(l) - 'hash' - 'prev_hash' - 'at')::text from audit_log l where details ->> 'merchant' = %s"
    )
    rows = [text.replace(first, "").replace(holder.name, "") for (text,) in world.rows(written, holder.name)]
    assert len(rows) == 5
    assert not any(digits in text for text in rows for digits in ("4444", "424242"))


def test_who_tries_tokens_is_a_case_and_nothing_of_what_was_tried_is_kept(world: VaultWorld) -> None:
    """Each answer stays a plain 404; people are told, once."""
    holder, others = world.holder(), world.holder()
    for n in range(limits.ACCESS_MISSES_MAX + 30):
        tried = f"{int(NUMBER) + n}" if n % 2 else f"tok_{n:024}"
        assert holder.http.get(f"/v1/tokens/{tried}").status_code == 404
        assert others.http.get("/v1/tokens/tok_" + "a" * 24).status_code == 404, "one id that is wrong, however often"
    found = "select reference, state, evidence::text from repair_case where kind = 'suspicious_access' and reference like %s"
    eventually(lambda: len(world.rows(found, f"% {holder.name} %")) == 1)
    ((reference, state, evidence),) = world.rows(found, f"% {holder.name} %")
    assert (reference.partition(" ")[0], state) == ("enumeration", "open")
    assert NUMBER[:12] not in reference + evidence
    assert world.rows(found, f"% {others.name} %") == []
    assert is_sound(world)


def test_a_token_without_the_scope_is_logged_and_a_stranger_is_not(world: VaultWorld) -> None:
    reader = world.holder(scopes=("payments:read",))
    before = world.rows("select count(*) from audit_log")
    assert reader.tokenize().status_code == 403
    assert logged(world, merchant=reader.name) == [("token.create", "tokens", "refused", "forbidden")]
    reader.http.headers["authorization"] = "Bearer forged"
    assert reader.tokenize().status_code == 401
    assert world.rows("select count(*) from audit_log") == [(before[0][0] + 1,)]


def test_every_card_that_leaves_is_logged_before_it_leaves(world: VaultWorld) -> None:
    """Also when nobody was there to take it; a look at the token itself shows no card, and is no row."""
    holder = world.holder()
    token = holder.token()
    for _ in range(2):
        assert world.forward(token, holder.name).status_code == 503
    assert holder.http.get(f"/v1/tokens/{token}").status_code == 200
    assert [row[0] for row in logged(world, merchant=holder.name)] == ["token.create", "card.reveal", "card.reveal"]
    assert is_sound(world)


def test_forwards_that_are_refused_are_logged(world: VaultWorld, processor: Processor) -> None:
    """Another merchant's token above all; a number where a token belongs is not repeated."""
    owner, thief = world.holder(), world.holder()
    token = owner.token()
    assert world.forward(token, owner.name).status_code == 200
    assert world.forward(token, thief.name).status_code == 404
    assert world.forward(NUMBER, thief.name).status_code in (404, 422)
    assert logged(world, merchant=owner.name) == [
        ("token.create", token, "done", None),
        ("card.reveal", token, "done", None),
    ]
    assert world.rows(
        "select actor, details ->> 'processor', details ->> 'path' from audit_log"
        " where action = 'card.reveal' and object = %s",
        token,
    ) == [("worker", "simulator", "/v1/operations")]
    assert ("card.forward", "tokens", "refused", "not_found") in logged(world, merchant=thief.name)
    assert len(processor.received) == 1
    assert world.rows("select 1 from audit_log l where l::text like %s", f"%{NUMBER}%") == []


def test_what_is_logged_together_with_a_token_is_one_chain(world: VaultWorld) -> None:
    """Sixteen at once, refusals among them: as many rows as there were calls, and none lost or forked."""
    holder = world.holder()

    def call(n: int) -> int:
        payload = card() if n % 16 else card("4242424242424241")

        def decided() -> int | None:  # 503 where the row before it took too long: nothing is made, and nothing logged
            status = holder.tokenize(payload, key=f"k{n}").status_code
            return None if status == 503 else status

        return eventually(decided)

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(call, range(64)))
    outcomes = [row[2] for row in logged(world, merchant=holder.name)]
    assert (statuses.count(201), statuses.count(422)) == (60, 4)
    assert (outcomes.count("done"), outcomes.count("refused")) == (60, 4)
    assert is_sound(world)


def test_the_vaults_role_appends_and_does_nothing_else_to_the_log(world: VaultWorld) -> None:
    with psycopg.connect(world.settings.addresses().postgres_dsns["millrace_vault"], autocommit=True) as connection:
        for statement in (
            "select * from audit_log",
            "select * from audit_head",
            "insert into audit_log select * from audit_log",
            "update audit_head set seq = 0",
            "delete from audit_log",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_every_command_of_the_shell_is_logged(world: VaultWorld) -> None:
    """Reads, writes, and what failed: this world has no Kafka to replay from."""
    world.holder().token()

    def run(*words: str) -> int:
        environment = clean_environment() | world.settings.environment()
        return subprocess.run([MILLRACE, *words], env=environment, capture_output=True, check=False).returncode

    assert [run("parked", "list"), run("partitions", "list"), run("vault", "status"), run("vault", "rotate")] == [0] * 4
    assert run("repair", "resume") == 0
    assert run("parked", "discard", "commands/0/1", "--note", "n", "--by", "shell:ada") == 1
    assert run("partitions", "resume", "commands/0", "--note", "n", "--by", "shell:ada") == 1
    assert run("replay", "payment_intent", "--swap") == 1
    rows = world.rows("select action, outcome from audit_log where actor like 'shell:%%' order by seq")
    assert rows == [
        ("parked.list", "done"),
        ("partition.list", "done"),
        ("vault.read", "done"),
        ("vault.rotate", "begun"),
        ("vault.rotate", "done"),
        ("repair.resume", "begun"),
        ("repair.resume", "done"),
        ("parked.discard", "refused"),
        ("partition.resume", "refused"),
        ("replay.swap", "begun"),
        ("replay.swap", "failed"),
    ]
    assert is_sound(world)
