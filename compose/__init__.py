"""Servers, supervisor, CLI, simulator, demo and benchmarks."""
