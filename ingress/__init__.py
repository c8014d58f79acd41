"""The edge: HTTP, authentication, commands into Kafka, and everything a caller reads."""
