"""A checkpoint that is about one object keeps its durable version, of whichever service the object is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from reconciliation.aggregates import aggregate_version
from reconciliation.services import RECONCILED
from schemas import errors
from schemas.services import SERVICES
from tests.eventually import eventually
from tests.worlds.page_user import PageUser, ann, page_users
from tests.worlds.payments.repair_world import millrace
from tests.worlds.payments.risk_world import confirmed, created
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["ann", "merchant", "page_users", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_an_object_of_each_service_has_its_version(public: PublicSystem, merchant: Merchant, ann: PageUser) -> None:
    post = ann.post("first")
    ann.done(f"/app/posts/{post}/edit", text="second", visibility="public", version="1")
    ann.done("/app/settings", display_name="Ann", version="1")
    ((user_version,),) = public.rows("select version from author where user_id = %s", ann.name)
    payment = created(merchant)
    confirmed(merchant, payment)
    versions = {post: 2, ann.name: user_version, f"user:{ann.name}": user_version}
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"], autocommit=True) as connection:
        found = {name: aggregate_version(connection, name) for name in versions}
        assert found == versions
        assert user_version > 1
        assert aggregate_version(connection, payment) > 1
        canary = eventually(lambda: public.rows("select tenant_id, version from tenant limit 1"))  # the monitor's
        assert aggregate_version(connection, canary[0][0]) == canary[0][1]
        with pytest.raises(errors.NotFound, match="no aggregate 'po_nobody'"):
            aggregate_version(connection, "po_nobody")
    name = f"about-{post}"
    done = millrace(public, "checkpoints", "create", name, "--aggregate-key", post)
    assert done.returncode == 0, done.stderr
    kept = public.rows("select aggregate_key, last_durable_version from recovery_checkpoint where name = %s", name)
    assert kept == [(post, 2)]
    assert "no aggregate" in millrace(public, "checkpoints", "create", "none", "--aggregate-key", "po_nobody").stderr


def test_every_service_says_where_its_versions_are() -> None:
    assert len({service.aggregate_version for service in RECONCILED.values()}) == len(SERVICES)
