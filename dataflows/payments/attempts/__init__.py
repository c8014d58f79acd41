"""Carries out processor attempts: at least one call each, at most one effect, every outcome back as a fact.

A worker takes attempts from the event stream, writes them down in ``attempt_dispatch`` before any I/O, calls the
processor under the attempt's own identity, and produces what came of it as a command to the intent's owner. It
decides nothing about money. Start reading at ``worker``; what an outcome leads to is in ``settlement``.
"""
