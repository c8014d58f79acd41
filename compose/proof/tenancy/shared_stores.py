"""The schemas that tenants of a soak share: one after the other is emptied by the mover, and tenants may come again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

from compose.proof.kit.patient_caller import CallRefused
from reconciliation.tenancy.tenant_stores import declare
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    import random
    from typing import Any

    from compose.proof.kit.own_stack import OwnStack
    from compose.proof.kit.patient_caller import PatientCaller

#: beside the one that every home has
STORES: Final = ("tenancy_pool_2", "tenancy_pool_3")
_SOAK_S: Final = (0, 3)  # of tenants that are moved: none can go back, or it can for a moment
_CONFLICT: Final = 409
_OPERATOR: Final = "millrace_operator"
SQL: Final = queries("compose.proof.tenancy", "shared_stores.sql")


class SharedStores:
    """What one life has done to all of them, as an operator of the platform."""

    def __init__(self, operator: PatientCaller, staff: PatientCaller, chance: random.Random) -> None:
        self._operator, self._staff, self._chance = operator, staff, chance

    def step(self) -> None:
        """One is drained, or takes tenants again. The last open one cannot be, and another life may be quicker."""
        shared = [one for one in self._staff.read("/v1/placements")["data"] if one["mode"] == "pooled"]
        store = self._chance.choice(shared)
        said: dict[str, Any] = {"note": "soak"}
        if store["state"] == "active":
            verb, said = "drain", said | {"soak_s": self._chance.choice(_SOAK_S)}
        else:
            verb = "activate"
        answer = self._operator.send("POST", f"/v1/placements/{store['store']}/{verb}", said)
        if answer.is_error and answer.status_code != _CONFLICT:
            raise CallRefused(f"{verb} {store['store']}: {answer.status_code} {answer.text[:300]}")


def declared(stack: OwnStack) -> None:
    """The stores are to be made; the mover does."""
    with _connected(stack) as connection:
        for store in STORES:
            declare(connection, store, {})


def moved(stack: OwnStack) -> tuple[int, int]:
    """How many moves that drains began came to their end, and how many are open."""
    with _connected(stack) as connection:
        ended, is_open = connection.execute(SQL["drained_moves"].encode()).fetchone() or (0, 0)
    return ended, is_open


def _connected(stack: OwnStack) -> psycopg.Connection:
    return psycopg.connect(stack.settings.addresses().postgres_dsns[_OPERATOR], autocommit=True)
