"""Benchmarks: programs that measure the system on real servers and print ratios, never timed tests."""
