"""Sizes as people write them: ``33554432``, ``64MiB``, ``2 GiB``."""

from __future__ import annotations

import re

__all__ = ["parse_size", "show_size"]

_SIZE = re.compile(r"(?P<number>\d{1,18}(?:\.\d{1,12})?)\s*(?P<unit>[KMGT]iB|B)?", re.ASCII)
_UNIT_BYTES = {None: 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}


def parse_size(text: str) -> int:
    """Return the bytes that a size means, without a part of one; a number alone is bytes.

    Raises:
        ValueError: it is no size; the message is fit for whoever wrote it.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError("must be bytes, or a size such as 512KiB, 64MiB or 2GiB")
    whole, _, part = match["number"].partition(".")
    # In whole numbers: a float is not exact beyond 8 PiB.
    return int(whole + part) * _UNIT_BYTES[match["unit"]] // int("1" + "0" * len(part))


def show_size(size: int) -> str:
    """Write a size in the largest unit of which it is a whole number."""
    unit = next(unit for unit in ("TiB", "GiB", "MiB", "KiB", "B") if size % _UNIT_BYTES[unit] == 0)
    return f"{size // _UNIT_BYTES[unit]} {unit}"
