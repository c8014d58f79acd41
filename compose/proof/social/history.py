"""Random histories of social posts: each step is taken by the service and by the reference."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from compose.proof.kit.patient_caller import CallRefused
from compose.proof.social.reference import Reference, Said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compose.proof.social.client import SocialClient

Move = Callable[[str, str], None]
_VISIBILITIES: Final = ("public", "public", "followers", "private")
_SOMETIMES: Final = 0.4
_MISSING: Final = 404
_CONFLICT: Final = 409
_DECISIONS: Final = "/v1/moderation/decisions"
_LABELS: Final = ("graphic", "spoiler", "satire")


class History:
    """Users, a moderator, and what they did. ``media``: how many pictures there are to be posted.

    ``further``: moves beside those of here, each with its weight.
    """

    def __init__(self, users: Sequence[SocialClient], moderator: SocialClient, seed: int, media: int) -> None:
        self.random = random.Random(seed)
        self.users: dict[str, SocialClient] = {}
        self.moderator = moderator
        self.further: dict[Move, int] = {}
        self.rulings: dict[str, str] = {}  # the newest decision, by object
        self.word = f"word{users[0].name.rpartition('_')[2]}x"  # in every text of this history: what search has to find
        self.model = Reference()
        self.exports: dict[str, str] = {}
        for user in users:
            self.welcome(user)
        owners = [self.random.choice(self.names) for _ in range(media)]
        self.media = {self.users[name].upload(): name for name in owners}  # in no post yet

    @property
    def names(self) -> list[str]:
        """The users who are there, in the order in which they came."""
        return list(self.users)

    def welcome(self, user: SocialClient) -> None:
        """A user who has no past."""
        user.read("/v1/me")
        if user.home:  # built now: from here on fan-out alone brings what others post
            raise CallRefused(f"{user.name} has a past")
        self.exports[user.name] = user.do("POST", "/v1/me/exports")["export_id"]
        self.users[user.name] = user

    def step(self) -> str:
        """One of them; those that the reference would refuse are left out."""
        name = self.random.choice([n for n in self.names if n not in self.model.suspended])
        other = self.random.choice([n for n in self.names if n != name])
        moves: dict[Move, int] = {
            self.post: 4,
            self.edit: 1,
            self.delete: 1,
            self.react: 2,
            self.follow: 4,
            self.block: 1,
            self.mute: 1,
            self.privacy: 1,
            self.accept: 1,
            self.judge: 2,
            self.label: 2,
            self.suspend: 1,
            **self.further,
        }
        (move,) = self.random.choices(list(moves), weights=list(moves.values()))
        move(name, other)
        return f"{move.__name__} {name} {other}"

    def _any(self, viewer: str, *, own: bool = False) -> str | None:
        found = sorted(p for p in self.model.seen(viewer) if not own or self.model.posts[p].author == viewer)
        return self.random.choice(found) if found else None

    def post(self, name: str, _: str) -> None:
        """Publishes: alone, in answer, quoting; with a medium, while there are some."""
        target = self._any(name)
        if target and not self.model.may_bring(name, target):
            target = None
        fields: dict[str, Any] = {"visibility": self.random.choice(_VISIBILITIES)}
        if target and self.random.random() < _SOMETIMES:
            fields["reply_to"] = target
        elif target and self.model.is_open(target):
            fields["quote_of"] = target
        if own := [media_id for media_id, owner in self.media.items() if owner == name]:
            fields["media_ids"] = own[:1]
            del self.media[own[0]]
        # no digit beside a name that may end with some: together they could pass for a card number, which is refused
        text = f"{self.word} @{self.random.choice(self.names)} n{self.random.randrange(10**9)}"
        made = self.users[name].post(text, **fields)
        self.model.posts[made["post_id"]] = Said(
            name, fields["visibility"], fields.get("reply_to"), fields.get("quote_of"), text, "media_ids" in fields
        )

    def edit(self, name: str, _: str) -> None:
        """Another text, and perhaps other readers."""
        if post_id := self._any(name, own=True):
            post, visibility = self.model.posts[post_id], self.random.choice(_VISIBILITIES)
            path, text = f"/v1/posts/{post_id}", f"{self.word} {self.random.randrange(10**9)}"
            version = self.users[name].read(path)["version"]
            self.users[name].do("PATCH", path, {"visibility": visibility, "text": text}, version=version)
            self.model.changes[post_id] += visibility != post.visibility
            post.visibility, post.text = visibility, text
            post.version = version + 1

    def delete(self, name: str, _: str) -> None:
        """A tombstone."""
        if post_id := self._any(name, own=True):
            path = f"/v1/posts/{post_id}"
            self.users[name].do("DELETE", path, version=self.users[name].read(path)["version"])
            self.model.posts[post_id].is_deleted = True

    def react(self, name: str, _: str) -> None:
        """Likes; reposts, or takes it back."""
        if post_id := self._any(name):
            self.users[name].do("POST", f"/v1/posts/{post_id}/likes")
            self.model.likes.add((name, post_id))
            if (name, post_id) in self.model.reposts:
                self.users[name].do("DELETE", f"/v1/posts/{post_id}/reposts")
                self.model.reposts.discard((name, post_id))
            elif self.model.is_open(post_id) and self.model.may_bring(name, post_id):
                self.users[name].do("POST", f"/v1/posts/{post_id}/reposts")
                self.model.reposts.add((name, post_id))

    def follow(self, name: str, other: str) -> None:
        """Follows, or no more; who is not there cannot be followed."""
        if self.model.blocked(name, other) or other in self.model.suspended:
            status = self.users[name].send("PUT", f"/v1/follows/{other}").status_code
            if status != _MISSING:
                raise CallRefused(f"following who is not there: {status}")
        elif self.model.is_following(name, other) and self.random.random() < _SOMETIMES:
            self.users[name].do("DELETE", f"/v1/follows/{other}")
            self.model.follows[name, other] = "removed"
        else:
            self.users[name].do("PUT", f"/v1/follows/{other}")
            self.model.follow(name, other)

    def accept(self, name: str, _: str) -> None:
        """Everybody who asks, and is there."""
        for (one, other), state in list(self.model.follows.items()):
            if other == name and state == "requested" and one not in self.model.suspended:
                self.users[name].do("POST", f"/v1/follows/requests/{one}/accept")
                self.model.follows[one, other] = "active"

    def block(self, name: str, other: str) -> None:
        """Blocks, or no more."""
        if (name, other) in self.model.blocks:
            self.users[name].do("DELETE", f"/v1/blocks/{other}")
            self.model.blocks.discard((name, other))
        elif not self.model.blocked(name, other) and other not in self.model.suspended:
            self.users[name].do("PUT", f"/v1/blocks/{other}")
            self.model.block(name, other)

    def mute(self, name: str, other: str) -> None:
        """Mutes, or no more; whom a block hides is not there to be muted, or heard again."""
        if self.model.blocked(name, other):
            status = self.users[name].send("DELETE", f"/v1/mutes/{other}").status_code
            if status != _MISSING:
                raise CallRefused(f"hearing who is not there: {status}")
        elif (name, other) in self.model.mutes:
            self.users[name].do("DELETE", f"/v1/mutes/{other}")
            self.model.mutes.discard((name, other))
        elif other not in self.model.suspended:
            self.users[name].do("PUT", f"/v1/mutes/{other}")
            self.model.mutes.add((name, other))

    def privacy(self, name: str, _: str) -> None:
        """Private, or public again."""
        self.users[name].do("PATCH", "/v1/me", {"is_private": name not in self.model.private})
        self.model.private ^= {name}
        self.model.changes[name] += 1

    def judge(self, _: str, __: str) -> None:
        """A decision about a post: takedowns, limits, and their end."""
        if post_id := self._living():
            decision = self.random.choice(["remove", "remove", "limit", "none"])
            beside = self.random.random() < _SOMETIMES
            self._decide(post_id, decision, beside=beside)
            self.model.decide(post_id, decision, None, self.rulings[post_id], beside=beside)

    def label(self, _: str, __: str) -> None:
        """A label beside others, or instead of all, or its end; what is judged is the version that is current."""
        if not (post_id := self._living()):
            return
        version, had = self.model.posts[post_id].version, self.model.labels.get(post_id)
        if had and self.random.random() < _SOMETIMES:
            said: dict[str, Any] = {"decision": "none", "label": self.random.choice(sorted(had)), "beside": True}
        else:
            beside = self.random.random() >= _SOMETIMES / 2
            said = {"decision": "label", "label": self.random.choice(_LABELS), "beside": beside}
        said |= {"object_id": post_id, "reason": "as drawn", "policy_version": 1}
        stale = self.moderator.send("POST", _DECISIONS, said | {"object_version": version + 1})
        if stale.status_code != _CONFLICT:
            raise CallRefused(f"a decision about a version that is not there: {stale.status_code}")
        ruling = self.moderator.do("POST", _DECISIONS, said | {"object_version": version})["decision_id"]
        if not said["beside"]:
            self.rulings[post_id] = ruling
        self.model.decide(post_id, said["decision"], said["label"], ruling, beside=said["beside"])
        self.model.changes[post_id] += 1

    def _living(self) -> str | None:
        living = sorted(p for p, post in self.model.posts.items() if not post.is_deleted)
        return self.random.choice(living) if living else None

    def suspend(self, _: str, other: str) -> None:
        """Suspends a user, or lifts it; one at a time, so that others go on."""
        lifted = self.model.suspended or {other}
        for name in sorted(lifted):
            self._decide(name, "none" if self.model.suspended else "remove")
        self.model.suspended = set() if self.model.suspended else {other}

    def _decide(self, object_id: str, decision: str, *, beside: bool = False) -> None:
        said = {"object_id": object_id, "decision": decision, "reason": "as drawn", "policy_version": 1}
        self.rulings[object_id] = self.moderator.do("POST", _DECISIONS, said | {"beside": beside})["decision_id"]
        self.model.changes[object_id] += 1

    def make_peace(self) -> None:
        """In the end everybody follows everybody, and posts once more: fan-out has something to do."""
        for name in sorted(self.model.suspended):
            self.suspend(name, name)
        for name, other in sorted(self.model.blocks):
            self.block(name, other)
        for name in sorted(self.model.private):
            self.privacy(name, "")
        for name in self.names:
            for other in self.names:
                if name != other and not self.model.is_following(name, other):
                    self.follow(name, other)
        self.post_once_more()

    def post_once_more(self) -> dict[str, str]:
        """A public post of everybody, by author."""
        made = {name: self.users[name].post(f"{self.word} in the end")["post_id"] for name in self.names}
        for name, post_id in made.items():
            self.model.posts[post_id] = Said(name, "public", text=f"{self.word} in the end")
        return made
