-- After Kafka has a retried command again. Primary key.
select parked_republished(%(topic)s, %(partition)s, %(offset)s)
