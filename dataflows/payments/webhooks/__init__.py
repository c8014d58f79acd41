"""Applies what processors told us: from the inbox of webhooks to facts in the intents' partitions.

A row of ``provider_event`` becomes a command to the owner, like the facts of every other door, with the identity that
all doors share. The worker writes no aggregate and decides nothing about money. Start reading at ``worker``; what an
event means is in ``vocabulary``, what happens with it next in ``steps``.
"""
