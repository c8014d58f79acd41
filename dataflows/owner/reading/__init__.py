"""From Kafka to the lanes: partitions are taken, read, decoded and handed out in order, by turns."""
