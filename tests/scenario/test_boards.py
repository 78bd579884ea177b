"""Every query of every board against a real Prometheus, for each line of vLLM's releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from support.backfilled import DIRECT, EPOCH, SIDECAR, Played, Shown, backfilled, write_samples
from support.facts import signals_of
from support.proof import Has, Proven, Server
from vllm_observe.dashboards import BOARDS, Options
from vllm_observe.model import ServiceClass
from vllm_observe.signals import OWN
from vllm_observe.sim.pages import Flavour
from vllm_observe.sim.scenarios.incidents import Deed, Incident
from vllm_observe.sim.scenarios.settings import CALM, USUAL, people
from vllm_observe.sim.scenarios.workloads import Spread
from vllm_observe.sim.scheduler import EngineLimits

#: The first test plays and asks for all.
pytestmark = pytest.mark.timeout(600)

TABLE = Path(__file__).parents[2] / "docs" / "dashboards" / "releases.md"

#: One of each line; where both engines were in use, both; and the newest as a batch server, too.
SHOWN = (
    Shown("0.6.6.post1", Flavour.V0, inside=False),
    Shown("0.8.5", inside=False),
    Shown("0.9.2", Flavour.V0, inside=False),
    Shown("0.9.2", inside=False),
    Shown("0.10.2", inside=False),
    *(Shown(release) for release in ("0.11.2", "0.16.0", "0.20.2", "0.24.0", "0.28.0", "0.32.0")),
    Shown("0.32.0", service_class=ServiceClass.BATCH),
)

#: Too little of everything, clients that leave, give up, try again and ask wrongly, failures, and a restart.
BAD_DAY = replace(
    USUAL,
    name="bad-day",
    limits=EngineLimits(max_num_seqs=24, num_gpu_blocks=2100, max_loras=2),
    workload=people(
        2.0,
        manners=replace(
            CALM, timeout_s=25.0, retries=2, leaving=0.1, patience=Spread(median=4.0), oversized=0.03
        ),
    ),
    incidents=(
        Incident(
            name="failures",
            start=30.0,
            end=200.0,
            deeds=(Deed(30.0, lambda it: it.fail_share(0.05)), Deed(120.0, lambda it: it.restart())),
        ),
    ),
    load_s=20.0,
    seconds=240.0,
)


#: What a sidecar shows; it tells of LoRA adapters one by one, not as vLLM's lists in labels.
OURS = frozenset(metric.name for metric in OWN)
RETOLD = {"vllm:lora_requests_info"}
#: Ours that are made of a signal which not every release has.
MADE_OF = {"vllm_observe_engine_answers_without_tokens": "http_requests_total"}
#: Boards that a server without a sidecar has nothing for.
OF_SIDECAR = {board.name for board in BOARDS if board.of_sidecar}
#: The newest without a sidecar, on the boards as they are committed.
UNASKED = "as committed"
#: How each is looked at: through a sidecar, directly on boards rendered for its release, or UNASKED.
ASKED = (
    *((SIDECAR, shown) for shown in SHOWN),
    *((DIRECT, shown) for shown in SHOWN if shown.service_class is ServiceClass.INTERACTIVE),
    (UNASKED, Shown("0.32.0")),
)


@pytest.fixture(scope="module")
def proven(
    promtool: Path, prometheus: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[tuple[str, Shown], list[Proven]]]:
    """What each panel has: of each release behind a sidecar, and scraped without one under its own names."""
    folder = tmp_path_factory.mktemp("boards")
    file = folder / "samples.om"
    with file.open("w", encoding="utf-8") as written:
        write_samples(written, [Played(BAD_DAY, SHOWN)], folder, every=15.0)
    with backfilled(promtool, prometheus, file, folder) as server:

        def ask(how: str, shown: Shown) -> list[Proven]:
            theirs = signals_of(shown.release, shown.flavour.value)
            ours = {name for name in OURS if MADE_OF.get(name) in theirs | {None}}
            asked = Server(
                server,
                job=SIDECAR if how == SIDECAR else DIRECT,
                instance=shown.instance,
                options=Options(vllm_version=shown.release if how == DIRECT else None),
                service_class=shown.service_class,
                has=(theirs - RETOLD) | ours if how == SIDECAR else theirs,
                start=EPOCH,
                end=EPOCH + BAD_DAY.seconds,
            )
            return [one for one in asked.proven() if how == SIDECAR or one.board not in OF_SIDECAR]

        yield {(how, shown): ask(how, shown) for how, shown in ASKED}


@pytest.mark.parametrize(("how", "shown"), ASKED, ids=lambda one: one if isinstance(one, str) else one.name)
def test_no_panel_is_blank_where_the_release_has_its_signal(proven, how, shown):
    blank = [f"{one.board}: {one.panel}: {query}" for one in proven[how, shown] for query in one.blank]

    assert not blank, "\n".join(blank)


def test_what_each_release_has_is_documented(proven, request):
    page = _page(proven)
    if request.config.getoption("--update-golden"):
        TABLE.write_text(page, encoding="utf-8")

    assert page == TABLE.read_text(encoding="utf-8")


_HEAD = """# The boards and vLLM's releases

<!-- Written by tests/scenario/test_boards.py (--update-golden). Change it there. -->

A simulated server with too little of everything was shown as each of these releases would show it, with
every option set that a panel needs, such as speculative decoding, LoRA or a KV connector. A real Prometheus
took it in: through a sidecar, and directly. Then every query of every board was run. In each cell stand the
panels with data, those of which nothing happened in that run though the release has their signal, and those
whose signal the release does not expose. A panel without releases behind it had none in any of them.
"""
_TITLES = {
    SIDECAR: "Through the sidecar",
    DIRECT: "Directly, on boards rendered for the release (--vllm-version)",
    UNASKED: "Directly, on the boards of dashboards/",
}


def _page(proven: Mapping[tuple[str, Shown], list[Proven]]) -> str:
    parts = [_HEAD]
    for how, title in _TITLES.items():
        found = {shown.name: panels for (asked, shown), panels in proven.items() if asked == how}
        parts += [f"## {title}\n", _matrix(found), "### Signals that are not there\n", _missing(found)]
    return "\n".join(parts)


def _matrix(found: Mapping[str, list[Proven]]) -> str:
    boards = [board.name for board in BOARDS if any(one.board == board.name for one in found["0.32.0"])]
    rows = [f"| vLLM | {' | '.join(boards)} |", f"|---|{'---|' * len(boards)}"]
    for release, panels in found.items():
        counted = Counter((one.board, one.has) for one in panels)
        cells = (" / ".join(str(counted[board, has]) for has in Has) for board in boards)
        rows.append(f"| {release} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _missing(found: Mapping[str, list[Proven]]) -> str:
    missing: dict[tuple[str, str], list[str]] = {}
    for release, panels in found.items():
        for one in panels:
            if one.has is Has.NO_SIGNAL:
                missing.setdefault((one.board, one.panel), []).append(release)
    lines = []
    for (board, panel), releases in sorted(missing.items()):
        where = f": {', '.join(releases)}" if len(releases) < len(found) else ""
        lines.append(f"- {board}, {panel}{where}")
    return "\n".join(lines) + "\n"
