"""After the invoices: every act of ``acts``, the settlement of ``breaks``, a repair, and a look at the ledger."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import psycopg

from compose.proof.demo.acts import MERCHANT, Act, Stage, acts
from compose.proof.demo.breaks import Settlement, breaks, settle_and_reconcile
from compose.proof.demo.repair import Repair, write_off
from ingress.client import AsyncMillraceClient
from ingress.identity.issuer import KeyFolder, issue_token
from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack

_QUERIES: Final = queries("compose.proof.kit", "evidence.sql")


@dataclass(frozen=True, slots=True)
class OneOfEach:
    """How the acts went."""

    acts: list[Act]
    settlement: Settlement
    repair: Repair = field(default_factory=Repair)

    @property
    def payments(self) -> list[Act]:
        """All payments, those that were settled wrongly too."""
        return [*self.acts, *(one.payment for one in self.settlement.planted)]

    @property
    def problems(self) -> list[str]:
        """Everything that is not as it must be."""
        acts = [act.problem for act in self.payments if act.problem]
        return acts + self.settlement.problems + ([self.repair.problem] if self.repair.problem else [])


def play_one_of_each(stack: OwnStack, narrator: Narrator) -> OneOfEach:
    """Plays everything; owners, workers and sinks may still be at work on it afterwards."""
    cast, planted = acts(), breaks()
    with narrator.busy("one of each: refunds, disputes, a webhook storm, a card in the vault"):
        asyncio.run(_play(stack, cast, [one.payment for one in planted]))
    with narrator.busy(f"a settlement with {len(planted)} planted breaks, and millrace reconcile"):
        settled = settle_and_reconcile(stack.settings, planted)
    with narrator.busy("a repair that one person proposes and another approves"):
        short = next((one for one in planted if one.kind == "short"), None)
        repair = write_off(stack, settled.found.get(short.payment.intent_id) if short else None)
    return OneOfEach(list(cast.values()), settled, repair)


def compare_postings(played: OneOfEach, postgres_dsn: str) -> None:
    """Whether each payment has exactly the ledger transactions that it must have; once nothing moves any more."""
    payments = played.payments
    with psycopg.connect(postgres_dsn) as connection:
        rows = connection.execute(_QUERIES["act_postings"], {"intents": [act.intent_id for act in payments]})
        kinds: dict[str, list[str]] = dict(rows.fetchall())
    for act in payments:
        act.posted = kinds.get(act.intent_id, [])
        if act.posted != list(act.posts) and not act.problem:
            act.problem = f"{act.name} ({act.intent_id}): posted {act.posted}, must be {list(act.posts)}"


async def _play(stack: OwnStack, cast: dict[str, Act], settled_wrongly: list[Act]) -> None:
    addresses = stack.settings.addresses()
    token = issue_token(KeyFolder(stack.home / "keys"), MERCHANT, ttl_s=limits.TOKEN_TTL_MAX_S)
    async with AsyncMillraceClient(addresses.base_url, token) as client:
        stage = Stage(client, token, addresses.processor_url, addresses.vault_url)
        # Before the others: a charge is missing when a younger one is in a settlement.
        await stage.pay_all(settled_wrongly)
        await stage.play(cast)
