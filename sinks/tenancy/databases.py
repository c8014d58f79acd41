"""Addresses of dedicated databases: on the server of the control database, named by the placement."""

from __future__ import annotations

from psycopg import conninfo

NAME_LENGTH_MAX = 63


def name_of(control: str, placement_id: str) -> str:
    """The name of the database of a dedicated placement."""
    return f"{control}_{placement_id}"[-NAME_LENGTH_MAX:]


def dsn_of(dsn: str, placement_id: str) -> str:
    """The same role's DSN of that database; ``dsn`` is its one of the control database."""
    control = conninfo.conninfo_to_dict(dsn)["dbname"]
    return conninfo.make_conninfo(dsn, dbname=name_of(str(control), placement_id))
