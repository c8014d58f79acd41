"""Commands that go on from what stood still: parked commands, partitions, projections, checkpoints."""
