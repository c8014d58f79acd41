"""Transactions that took too long get smaller, and larger again; every record stays in its place."""

from __future__ import annotations

from dataflows import limits
from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.transaction.size import TransactionSize
from sinks import limits as sinks_limits

TOO_LONG_S = sinks_limits.OWNER_TRANSACTION_TIMEOUT_MS / 1_000


def batch(count: int) -> PartitionBatch:
    return PartitionBatch(3, [Record(offset, b"") for offset in range(count)], epoch=7, left=2)


def test_it_halves_to_one_and_no_further() -> None:
    size = TransactionSize()
    assert size.takes(10**6)
    size.failed(500, TOO_LONG_S - 0.001)  # failed for another reason
    assert size.records is None
    found = []
    for _ in range(10):
        size.failed(min(500, size.records or 500), TOO_LONG_S)
        found.append(size.records)
    assert found == [250, 125, 62, 31, 15, 7, 3, 1, 1, 1]
    assert (size.takes(1), size.takes(2)) == (True, False)


def test_it_grows_after_many_whole_transactions_that_went_well() -> None:
    size = TransactionSize(2_000)
    size.failed(400, TOO_LONG_S)
    for _ in range(10 * limits.TRANSACTIONS_UNTIL_LARGER):
        size.committed(199)  # no proof of anything
    assert size.records == 200
    for _ in range(limits.TRANSACTIONS_UNTIL_LARGER):
        size.committed(200)
    assert size.records == 400
    for bound in (400, 800, 1_600):
        for _ in range(limits.TRANSACTIONS_UNTIL_LARGER):
            size.committed(bound)
    assert size.records is None


def test_who_reads_at_most_so_many_reads_fewer_for_a_while() -> None:
    size = TransactionSize(5_000)
    found = [size.at_most]
    for _ in range(2):
        size.failed(size.at_most, TOO_LONG_S)
        found.append(size.at_most)
    for _ in range(2):
        for _ in range(limits.TRANSACTIONS_UNTIL_LARGER):
            size.committed(size.at_most)
        found.append(size.at_most)
    assert found == [5_000, 2_500, 1_250, 2_500, 5_000]
    assert size.records is None


def test_pieces_are_the_batch_in_order() -> None:
    size, whole = TransactionSize(), batch(23)
    assert list(size.pieces(whole)) == [whole]
    size.failed(16, TOO_LONG_S)
    pieces = list(size.pieces(whole))
    assert [len(piece.records) for piece in pieces] == [8, 8, 7]
    assert [record for piece in pieces for record in piece.records] == whole.records
    assert {(piece.partition, piece.epoch, piece.left) for piece in pieces} == {(3, 7, 2)}
