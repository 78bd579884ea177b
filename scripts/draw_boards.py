"""Draw the boards' pictures: a simulated fleet, its hour in a real Prometheus, and each board of it.

    python scripts/draw_boards.py                       the pictures of docs/pictures
    python scripts/draw_boards.py --all --output FOLDER all six boards, of all servers
    python scripts/draw_boards.py --all --output FOLDER --servers 8 --engines 4    as a large fleet looks

On the last server a batch job takes every slot from the 30th to the 50th minute; the others have a calm
day. It needs promtool and Prometheus, and some minutes: each scrape is what a sidecar makes of it.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from vllm_observe.dashboards import BOARDS
from vllm_observe.preview.command import run
from vllm_observe.sim.scenarios.registry import SCENARIOS

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.backfilled import (  # type: ignore[import-not-found]  # noqa: E402  # tests are no package
    EPOCH,
    SIDECAR,
    Played,
    Shown,
    backfilled,
    write_samples,
)

CALM, TROUBLED = SCENARIOS["steady"], SCENARIOS["slots-exhausted"]
#: Two sides of a rollout, and the same seconds between two scrapes for all.
RELEASES = ("0.31.0", "0.32.0")
SCRAPE_EVERY = 60
WIDTH = 1200


def fleet(servers: int, engines: int) -> Iterator[Played]:
    """Give the servers; each has other users."""
    for number in range(servers):
        story = TROUBLED if number == servers - 1 else CALM
        slots = replace(story.limits, max_num_seqs=story.limits.slots // engines)
        release = RELEASES[number * len(RELEASES) // servers]
        shown = Shown(release, options=False, host=f"vllm-{number}")
        yield Played(replace(story, engines=engines, limits=slots), [shown], seed=number + 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "pictures", metavar="FOLDER")
    parser.add_argument("--all", action="store_true", help="all boards, of all servers")
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--engines", type=int, default=2, help="data-parallel engines of each")
    chosen = parser.parse_args(arguments)

    programs = [shutil.which(name) for name in ("promtool", "prometheus")]
    if None in programs:
        print("promtool and prometheus must be on the PATH: scripts/install_prometheus.sh", file=sys.stderr)
        return 2
    promtool, prometheus = (Path(str(program)) for program in programs)
    logging.disable(logging.WARNING)  # the sidecars tell of what befalls their servers
    troubled = f"vllm-{chosen.servers - 1}:8000"
    wanted = {board.name: [] for board in BOARDS} if chosen.all else {"overview": [], "engine": [troubled]}
    chosen.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        samples = folder / "samples.om"
        with samples.open("w", encoding="utf-8") as file:
            write_samples(file, list(fleet(chosen.servers, chosen.engines)), folder, every=SCRAPE_EVERY)
        with backfilled(promtool, prometheus, samples, folder) as server:
            for board, instances in wanted.items():
                picture = chosen.output / f"{board}.png"
                run(
                    board=board,
                    prometheus=server.url,
                    output=picture,
                    picked=[f"job={SIDECAR}", *(f"instance={one}" for one in instances)],
                    since="1h",
                    until=str(EPOCH + TROUBLED.seconds),
                    width=WIDTH,
                    scrape_interval=f"{SCRAPE_EVERY}s",
                    token_file=None,
                )
                print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
