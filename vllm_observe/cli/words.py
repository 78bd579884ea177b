"""Numbers, durations and foreign names as a terminal shows them: short, and safe to print."""

from __future__ import annotations

__all__ = ["UNKNOWN", "amount", "duration", "percent", "printable"]

#: What stands where a value is not known.
UNKNOWN = "—"

_MULTIPLES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_EXACT_BELOW = 99_999.5
_TIMES = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"))


def amount(value: float | None) -> str:
    """Return a count or a rate in about three digits: 0.25, 16, 12,032, 1.23 M."""
    if value is None:
        return UNKNOWN
    if value < _EXACT_BELOW:
        digits = ".3g" if value < 99.95 and value != int(value) else ",.0f"  # noqa: PLR2004  # 100 once rounded
        return f"{value:{digits}}"
    size, name = next((size, name) for size, name in _MULTIPLES if value >= size)
    return f"{value / size:.3g} {name}"


def duration(seconds: float | None) -> str:
    """Return a duration in about three digits: 7.1 ms, 2.41 s, 15 min."""
    if seconds is None:
        return UNKNOWN
    if seconds == 0:
        return "0 s"
    if seconds < 1e-5:  # noqa: PLR2004  # a hundredth of a millisecond
        return "< 0.01 ms"
    if seconds < 0.9995:  # noqa: PLR2004  # below a second, once rounded
        return f"{seconds * 1000:.3g} ms"
    if seconds < 600:  # noqa: PLR2004  # a stall's length is best read in seconds
        return f"{seconds:.3g} s"
    size, name = next((size, name) for size, name in _TIMES if seconds >= size)
    return f"{seconds / size:.3g} {name}"


def percent(ratio: float | None) -> str:
    """Return a ratio 0..1 in percent; what is not 0 never reads as 0."""
    if ratio is None:
        return UNKNOWN
    if 0 < ratio < 0.001:  # noqa: PLR2004  # it would round to 0.0
        return "< 0.1 %"
    shown = f"{ratio * 100:.1f}" if ratio < 100 else f"{ratio * 100:.3g}"  # noqa: PLR2004  # no real one is
    return shown.removesuffix(".0") + " %"


def printable(text: str, *, width: int = 60) -> str:
    """Return foreign text with everything escaped that could move a terminal's cursor, and cut to a width.

    What is no printable character is escaped: control characters, but also those that turn the
    direction of writing or take no room.
    """
    shown = "".join(
        character if character.isprintable() else _escaped(character) for character in text[: width + 1]
    )
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
