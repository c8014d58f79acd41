"""Doors of operators that know no service: cases, parked commands, audit, decisions of two persons."""
