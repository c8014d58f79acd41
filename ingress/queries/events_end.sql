-- The newest committed event of every partition. A handful of rows, by the primary key of partition_owner.
select partition, next_seq - 1 as seq from partition_owner where topic = %(commands_topic)s
