"""Quota policies on the owner runtime: which rows a batch of publications reads and writes."""
