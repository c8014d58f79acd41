-- /readyz: partitions that their owners have stopped. A row for each partition there is: some dozens.
select topic, partition from partition_owner where halted is not null order by topic, partition
