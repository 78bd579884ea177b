"""Write the pages of docs/ that are made from the code, or check that they are up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from vllm_observe.alerts import guide as alerts
from vllm_observe.dashboards import guide
from vllm_observe.signals import NEWEST, OLDEST, OWN, SIGNALS, OwnMetric, Signal

DOCS = Path(__file__).resolve().parent.parent / "docs"

HEAD = f"""# Metrics

<!-- Written by scripts/render_docs.py from vllm_observe/signals. Change it there. -->

The sidecar's /metrics holds two kinds of metrics: vLLM's, under the names of vLLM {NEWEST} whatever
the release behind it, and its own, which begin with `vllm_observe_`.

Counters are named as their samples are, `_total` included; OpenMetrics takes that suffix off in its
`# TYPE` lines only.

## vLLM's

Read from vLLM {OLDEST} to {NEWEST}. *Releases* are those that expose the name unasked; a name that
stands under *formerly* is shown under today's. Where vLLM exposes both, they are the same numbers
twice: today's is used. Up to 0.10.2 the V0 engine has no `engine` label. `--disable-log-stats` takes
all of them away but the `http_` ones.
"""

OWN_HEAD = """
## Our own

A counter is there at 0 before anything happened, for each value that stands with a label, as soon as
its other labels are known. A gauge that is not known is absent, never 0.
"""


def code(text: str) -> str:
    """Mark a name as code."""
    return f"`{text}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out a Markdown table."""
    cells = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in cells)


def releases(first: str, last: str | None) -> str:
    """Write a range of releases."""
    if last is None:
        return f"since {first}"
    return first if first == last else f"{first} to {last}"


def signal_row(signal: Signal) -> list[str]:
    """Describe one of vLLM's metrics."""
    labels = ", ".join(map(code, signal.labels))
    former = (f"{code(name.name)} {releases(name.first, name.last)}" for name in signal.former)
    return [
        code(signal.name),
        signal.help,
        signal.kind.value,
        signal.unit,
        f"{labels}, …" if signal.more_labels else labels,
        releases(signal.first, signal.last),
        ", ".join(former),
        signal.gate,
    ]


def own_row(metric: OwnMetric) -> list[str]:
    """Describe one of our own metrics."""
    labels = (
        code(label) + (f" ({', '.join(metric.known[label])})" if label in metric.known else "")
        for label in metric.labels
    )
    return [code(metric.name), metric.help, metric.kind.value, metric.unit, ", ".join(labels)]


def metrics_page() -> str:
    """Return the whole page."""
    vllm = table(
        ("metric", "tells", "type", "unit", "labels", "releases", "formerly", "needs"),
        map(signal_row, SIGNALS),
    )
    own = table(("metric", "tells", "type", "unit", "labels"), map(own_row, OWN))
    return f"{HEAD}\n{vllm}{OWN_HEAD}\n{own}"


def pages() -> dict[str, str]:
    """Return every page by its path within docs/."""
    boards = {f"dashboards/{name}": page for name, page in guide.pages().items()}
    return {"metrics.md": metrics_page(), "alerts.md": alerts.page(), **boards}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pages, or with ``--check`` compare them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=DOCS, help="the folder (default: docs)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a page differs")
    options = parser.parse_args(arguments)
    made = {options.output / name: page for name, page in pages().items()}
    if not options.check:
        for path, page in made.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page, encoding="utf-8")
        return 0
    differing = [path for path, page in made.items() if not path.exists() or path.read_text("utf-8") != page]
    for path in differing:
        print(f"{path} is out of date: run scripts/render_docs.py", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
