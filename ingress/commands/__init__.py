"""From a request to a command in Kafka and back: envelope, exchange, results, events."""
