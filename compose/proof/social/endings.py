"""Moves that end something: a decision by an appeal, a user by its erasure, after which another one comes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from compose.proof.kit.patient_caller import CallRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.social.client import SocialClient
    from compose.proof.social.history import History


class Endings:
    """Further moves of a history. ``newcomer`` makes a user; ``erasures_max``: how many are erased."""

    def __init__(
        self, history: History, second: SocialClient, newcomer: Callable[[], SocialClient], erasures_max: int
    ) -> None:
        self._history, self._second, self._newcomer, self._erasures_max = history, second, newcomer, erasures_max
        self._appealed: set[str] = set()
        self.erased: list[SocialClient] = []
        history.further |= {self.appeal: 3, self.erase: 1}

    def appeal(self, _: str, __: str) -> None:
        """The author of a post appeals against a decision about it, or one of its labels; another moderator decides."""
        history, model = self._history, self._history.model
        decided = [(one, history.rulings[one], "") for one, decision in model.decisions.items() if decision != "none"]
        decided += [(one, by, label) for one, labels in model.labels.items() for label, by in labels.items()]
        open_to = sorted(
            (post_id, decision_id, label)
            for post_id, decision_id, label in decided
            if not model.posts[post_id].is_deleted
            and model.posts[post_id].author not in model.suspended
            and decision_id not in self._appealed
        )
        if not open_to:
            return
        post_id, decision_id, label = history.random.choice(open_to)
        self._appealed.add(decision_id)
        author = history.users[model.posts[post_id].author]
        said = {"decision_id": decision_id, "text": f"{history.word} is no spam"}
        appeal_id = author.do("POST", "/v1/moderation/appeals", said)["appeal_id"]
        outcome = history.random.choice(["reversed", "reversed", "upheld"])
        verdict = {"outcome": outcome, "reason": "as drawn", "policy_version": 1}
        self._second.do("POST", f"/v1/moderation/appeals/{appeal_id}/decide", verdict)
        if outcome == "reversed":
            model.decide(post_id, "none", label or None, decision_id, beside=True)
            model.changes[post_id] += 1

    def erase(self, name: str, _: str) -> None:
        """The user erases itself, and another one comes: at once nobody sees anything of the first."""
        history = self._history
        if len(self.erased) >= self._erasures_max:
            return
        user = history.users[name]
        user.do("POST", "/v1/me/erasure", {"confirm": name})
        history.model.erase(name)
        history.media = {media_id: owner for media_id, owner in history.media.items() if owner != name}
        del history.users[name]
        self.erased.append(user)
        history.welcome(self._newcomer())

    def prove(self) -> None:
        """Every erasure comes to its certificate. Raises NotInTime, and CallRefused for one that says less."""
        for user in self.erased:
            read = partial(user.read, "/v1/me/erasure")
            user.becomes(f"the erasure of {user.name}", lambda read=read: read()["state"], "complete")  # type: ignore[misc]
            if read()["certificate"]["reachable"] != 0:
                raise CallRefused(f"the certificate of {user.name} says that something is left")
