"""Claims: which engine's ids stand for which client's.

Which client's request an engine's part belongs to can only be asked once it is known which ids clients
have sent. Until then an engine's id claims all that it may stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vllm_observe.join.groups import Group
from vllm_observe.join.identity import candidates, indexed, keys

__all__ = ["Claims"]


class Claims:
    """The claims of the groups of engine parts that are known.

    Args:
        find: gives a group by its id; ``None`` where none is known.
    """

    def __init__(self, find: Callable[[str], Group | None]) -> None:
        self._find = find
        self._claimants: dict[str, dict[str, None]] = {}  # the key of what an id may stand for -> such ids
        self._long: dict[str, dict[str, None]] = {}  # a key that several ids may have -> clients' long ids

    def __len__(self) -> int:
        return sum(map(len, self._claimants.values()))

    def know(self, name: str) -> None:
        """Note an id that a client has sent."""
        for its_key in keys(name):
            if its_key != name:
                self._long.setdefault(its_key, {})[name] = None

    def register(self, name: str, group: Group) -> None:
        """Note what an engine's id, which is that of a group, may stand for."""
        if group.candidates:
            return
        group.candidates = tuple(other for other in candidates(name) if other != name)
        group.indexed = indexed(name)
        for other in group.candidates:
            self._claimants.setdefault(other, {})[name] = None

    def forget(self, name: str, group: Group) -> None:
        """Drop the claims of a group that is no longer known."""
        for other in group.candidates:
            _remove(name, self._claimants, other)
        for its_key in keys(name):
            _remove(name, self._long, its_key)

    def owner(self, group: Group) -> str | None:
        """Find the client's id that an engine's id stands for, among those that are known.

        Of several the one that lacks just a prompt's index; else the one whose time fits, and then the
        longest, with the least cut off.
        """
        known = [
            (name, found)
            for candidate in group.candidates
            for name in (candidate, *self._long.get(candidate, {}))
            if (found := self._find(name)) is not None and found.has_edge
        ]
        if len(known) > 1:
            return min(known, key=lambda one: (group.indexed not in keys(one[0]), one[1].misfit(group)))[0]
        return known[0][0] if known else None

    def of(self, name: str) -> Iterator[tuple[str, Group]]:
        """List the groups of engine parts that belong to a client's id, the latest first.

        While parts keep coming, those are not quiet: of thousands of prompts only a few are looked at.
        """
        for its_key in keys(name):
            for other in reversed(self._claimants.get(its_key, {})):
                group = self._find(other)
                if group is not None and not group.has_edge and self.owner(group) == name:
                    yield other, group


def _remove(name: str, names: dict[str, dict[str, None]], its_key: str) -> None:
    found = names.get(its_key)
    if found is not None:
        found.pop(name, None)
        if not found:
            del names[its_key]
