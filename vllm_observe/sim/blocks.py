"""KV-cache blocks: paging, and prefix caching by the keys of full blocks.

A block is *blank* (free, nothing worth keeping), *kept* (free, but its content can be used again),
*shared* (in use under its content's key, by one request or several) or *private* (in use by one
request: not yet full, or with a content that another block holds already). There are no block
numbers: which block is which makes no difference to anything that can be seen.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

__all__ = ["BlockPool", "Holding"]


class Holding:
    """The blocks of one request, in the order of its tokens."""

    __slots__ = ("keys", "private")

    def __init__(self) -> None:
        self.keys: list[int] = []
        self.private = 0

    @property
    def blocks(self) -> int:
        """How many blocks it holds."""
        return len(self.keys) + self.private


class BlockPool:
    """All blocks of one engine.

    Args:
        blocks: how many there are.
        caching: whether the content of full blocks is kept for other requests.
    """

    def __init__(self, blocks: int, *, caching: bool = True) -> None:
        self.total = blocks
        self._caching = caching
        self._blank = blocks
        self._private = 0
        self._kept: OrderedDict[int, None] = OrderedDict()  # the one to be given away first comes first
        self._shared: dict[int, int] = {}  # key -> how many requests use it

    @property
    def free(self) -> int:
        """Blocks that a request can have."""
        return self._blank + len(self._kept)

    @property
    def used(self) -> int:
        """Blocks that a request has."""
        return self._private + len(self._shared)

    @property
    def usage(self) -> float:
        """The share of the blocks in use."""
        return self.used / self.total

    def cached(self, keys: Iterable[int]) -> int:
        """Return how many blocks from the first on are there already."""
        found = 0
        for key in keys:
            if key not in self._shared and key not in self._kept:
                break
            found += 1
        return found

    def fits(self, hits: Sequence[int], fresh: int) -> bool:
        """Say whether there are the cached blocks ``hits`` and so many others for a request."""
        revived = sum(key in self._kept for key in hits) if hits else 0
        return fresh + revived <= self.free

    def take(self, holding: Holding, hits: Sequence[int], fresh: int) -> bool:
        """Give a request the cached blocks ``hits`` and so many others; all or nothing.

        Returns:
            Whether there were enough.
        """
        if not self.fits(hits, fresh):
            return False
        for key in hits:
            self._kept.pop(key, None)
            self._shared[key] = self._shared.get(key, 0) + 1
        holding.keys.extend(hits)
        for _ in range(fresh - self._blank):
            self._kept.popitem(last=False)
        self._blank = max(0, self._blank - fresh)
        self._private += fresh
        holding.private += fresh
        return True

    def publish(self, holding: Holding, keys: Iterable[int]) -> None:
        """Note the content of a request's private blocks that became full."""
        if not self._caching:
            return
        for key in keys:
            if key not in self._shared and key not in self._kept:
                self._shared[key] = 1
                self._private -= 1
                holding.private -= 1
                holding.keys.append(key)

    def release(self, holding: Holding) -> None:
        """Take back all blocks of a request. The last of its tokens are the first to be given away."""
        self._blank += holding.private
        self._private -= holding.private
        for key in reversed(holding.keys):
            uses = self._shared[key] - 1
            if uses:
                self._shared[key] = uses
            else:
                del self._shared[key]
                self._kept[key] = None
        holding.keys, holding.private = [], 0

    def forget(self) -> None:
        """Lose what is kept of requests that ended."""
        self._blank += len(self._kept)
        self._kept.clear()
