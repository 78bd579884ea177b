"""Problems as text and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from vllm_observe.alerts.lint.problem import Level, Problem

__all__ = ["as_json", "as_text", "failing"]


def failing(problems: Sequence[Problem], *, strict: bool) -> bool:
    """Whether the rules are not good enough: with ``strict`` a warning is too much already."""
    bad = {Level.ERROR, Level.WARNING} if strict else {Level.ERROR}
    return any(problem.level in bad for problem in problems)


def as_text(problems: Sequence[Problem], rules: int, *, least: Level = Level.INFO) -> str:
    """Write a line for each problem of a level or a worse one, as compilers do; the last line counts all."""
    lines = [
        _safe(
            f"{problem.file}:{problem.line}: {problem.level.value}: {problem.rule}: {problem.message} [{problem.check}]"
        )
        for problem in _from(least, problems)
    ]
    counts = _counts(problems)
    counted = ", ".join(
        f"{count} {level}{'s' * (count != 1 and level != 'info')}" for level, count in counts.items()
    )
    return "\n".join([*lines, f"{rules} rule{'s' * (rules != 1)}: {counted}", ""])


def as_json(problems: Sequence[Problem], rules: int, *, least: Level = Level.INFO) -> str:
    """Write one JSON object, with the problems of a level or a worse one and the counts of all."""
    document = {
        "rules": rules,
        "counts": _counts(problems),
        "problems": [
            problem._asdict() | {"level": problem.level.value} for problem in _from(least, problems)
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _safe(line: str) -> str:
    """Escape what could move a terminal's cursor or begin a line: names in a rule file are anybody's."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in line
    )


def _from(least: Level, problems: Sequence[Problem]) -> list[Problem]:
    levels = list(Level)  # the worst first
    told = levels[: levels.index(least) + 1]
    return [problem for problem in problems if problem.level in told]


def _counts(problems: Sequence[Problem]) -> dict[str, int]:
    found = Counter(problem.level for problem in problems)
    return {level.value: found[level] for level in Level}
