"""Access logs as traffic: real lines are read, odd ones skipped, time only goes forward, the sample is always the same."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from compose.proof import limits
from compose.proof.demo.limiter.access_log import Visit, generated_lines, parsed, read_access_log, visit_of
from compose.proof.demo.limiter.policies import ASSETS, DOWNLOADS, FEEDS, PAGES, asked_for, later_policies
from compose.stack.errors import StackError
from limiter.policy.keys import key_parts
from limiter.policy.policies import PolicySet
from schemas.limiter.limit_terms import terms

if TYPE_CHECKING:
    from pathlib import Path

LINE = '192.0.2.7 - - [17/May/2015:10:05:03 +0200] "GET /images/a.png?x=1 HTTP/1.1" 200 203023 "http://a/" "b \\"c\\""'


def test_a_line_is_read() -> None:
    assert visit_of(LINE) == Visit(1_431_849_903, "192.0.2.7", "/images/a.png", 203_023)
    assert visit_of(LINE.replace("203023", "-").replace("+0200", "+0000")) == Visit(
        1_431_857_103, "192.0.2.7", "/images/a.png", 0
    )
    assert visit_of(LINE.replace("/images/a.png?x=1", "http://a/images/a.png")) is not None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        LINE[:40],
        LINE.replace("May", "Mai"),
        LINE.replace("GET /images/a.png?x=1 HTTP/1.1", "-"),
        LINE.replace("GET /images", "GET http://[::1/images"),
    ],
)
def test_what_is_no_request_is_skipped(line: str) -> None:
    assert visit_of(line) is None
    assert parsed([line, LINE]).skipped == 1


def test_a_log_that_goes_back_in_time_is_sorted_and_keeps_the_order_of_a_second() -> None:
    early = LINE.replace("10:05:03", "10:05:01")
    log = parsed([LINE, early.replace("/a.png", "/b.png"), early.replace("/a.png", "/c.png"), LINE])
    assert [visit.path[-5:] for visit in log.visits] == ["b.png", "c.png", "a.png", "a.png"]
    assert (log.out_of_order, log.span_s) == (1, 2)


def test_files_are_read_plain_and_gzipped_and_a_wrong_one_is_told(tmp_path: Path) -> None:
    plain, packed, wrong = (tmp_path / name for name in ("a.log", "a.log.gz", "b.log"))
    plain.write_text(f"{LINE}\n\xff\n")
    packed.write_bytes(gzip.compress(LINE.encode()))
    wrong.write_text("no request\n")
    assert read_access_log(plain).visits == read_access_log(packed).visits
    for path in (wrong, tmp_path / "missing", tmp_path):
        with pytest.raises(StackError):
            read_access_log(path)


def test_the_sample_is_always_the_same_and_asks_for_every_kind() -> None:
    lines = list(generated_lines(limits.DEMO_LOG_LINES_GENERATED))
    assert lines == list(generated_lines(limits.DEMO_LOG_LINES_GENERATED))
    log = parsed(lines)
    assert (len(log.visits), log.skipped) == (limits.DEMO_LOG_LINES_GENERATED, 0)
    assert log.out_of_order > 0
    assert {asked_for(visit).tenant for visit in log.visits} == {PAGES, ASSETS, DOWNLOADS, FEEDS}


def test_every_kind_is_governed_by_policies_that_can_be_published() -> None:
    policies = PolicySet(later_policies(), 1)
    assert all(terms(policy) for policy in later_policies())
    for path in ("/", "/a/b.css", "/a/b.png", "/feed", "/%2e%2e/x", "/" + "x" * 5_000):
        asked = asked_for(Visit(0, "192.0.2.7", path, 10**9))
        assert policies.levels(key_parts(asked.tenant, asked.user, asked.route))
        assert 1 <= asked.cost <= 4
