"""Figures of benchmarks beside their goals. None fails a run: a slow machine gives slow ones."""


def at_least(name: str, found: float, goal: float) -> dict[str, float]:
    """A figure that should be high, its goal, and how much of it was reached: 1 or more is good."""
    return {name: round(found, 2), f"{name}_goal": goal, f"{name}_of_goal": round(found / goal, 2)}


def at_most(name: str, found: float, goal: float) -> dict[str, float]:
    """A figure that should be low, its goal, and how much of the goal it takes: 1 or less is good.

    Of none at all, which is a goal of 0, each takes as much as the goal besides.
    """
    share = found / goal if goal else 1 + found
    return {name: round(found, 2), f"{name}_goal": goal, f"{name}_of_goal": round(share, 2)}
