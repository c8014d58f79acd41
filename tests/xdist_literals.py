"""The literals of our modules, which Hypothesis tries as values: who imports this has read them, and so have its forks.

Each worker of a run would read all of them again, in half a second.
"""

from __future__ import annotations

from hypothesis import configuration
from hypothesis.internal.conjecture.providers import _get_local_constants

_get_local_constants()
# else its plugin refuses what was read before it: that would be in each worker
configuration._first_postinit_what = None
