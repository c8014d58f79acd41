"""A worker of a run, forked from a process that has imported what all of them import: two to three seconds less for each.

It goes on as execnet would have begun it. Before that, while it has one thread and nothing open, it forks the server of
its own starts, which imports nothing anew either.
"""

from __future__ import annotations

import os
import sys

from compose.supervise import forking
from compose.supervise.forking import ForkServer
from tests.fork_server import modules

_PIPES = (0, 1)  # to who started this worker, who hears of its end when nobody else holds them


def _begin_server() -> ForkServer:
    """It returns in the worker alone."""
    kept = [os.dup(pipe) for pipe in _PIPES]
    nothing = os.open(os.devnull, os.O_RDWR)
    for pipe in _PIPES:
        os.dup2(nothing, pipe)
    server = forking.start(modules(), {})
    for copy, pipe in zip(kept, _PIPES, strict=True):
        os.dup2(copy, pipe)
        os.close(copy)
    os.close(nothing)
    return server


if __name__ == "__main__":
    begun = _begin_server()
    from tests import starts  # not before: what is forked for tests knows nothing of them

    starts.use(begun)
    exec(eval(sys.stdin.readline()))  # as execnet begins every worker
