"""Every role of a running process can be given a password: without a setting no external Postgres could serve it."""

from __future__ import annotations

from compose.settings.settings import Settings
from sinks.postgres.roles import ROLES


def test_every_role_has_its_setting() -> None:
    wanted = {f"postgres_{role.removeprefix('millrace_')}_password" for role in ROLES}
    assert wanted <= Settings.model_fields.keys()
