"""What a service writes into its log, and what it must not."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
import structlog

from compose.services.logs import configure_logs

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def crash(signing_secret: str) -> None:
    raise ValueError("bad" if signing_secret else "none")


def test_a_traceback_names_the_place_and_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    """rich would print the local variables of each frame."""
    configure_logs("info")
    secret = uuid.uuid4().hex  # so that no line of the source shows it
    try:
        crash(secret)
    except ValueError as error:
        structlog.get_logger().error("delivery_crashed", exc_info=error)
    written = capsys.readouterr().out
    assert "delivery_crashed" in written
    assert "in crash" in written
    assert "ValueError: bad" in written
    assert secret not in written


def test_the_level_that_is_set_counts(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("warning")
    structlog.get_logger().info("partition_acquired")
    structlog.get_logger().warning("owner_restarts")
    written = capsys.readouterr().out
    assert "partition_acquired" not in written
    assert "owner_restarts" in written
