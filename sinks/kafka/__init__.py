"""Kafka: client settings and topics."""
