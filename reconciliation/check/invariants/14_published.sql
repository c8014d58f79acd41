-- id: published
-- title: Kafka holds every event that counts as published, in order and without a gap
-- severity: critical
-- owner: owner
-- source: comparison
-- Of every service in turn.
select partition, published_seq from partition_owner where topic = %(commands_topic)s
