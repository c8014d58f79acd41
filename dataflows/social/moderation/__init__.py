"""Moderation: what owners do with reports, decisions and appeals, and the worker that looks where decisions arrived."""
