"""One scrape of a loaded vLLM, beside prometheus_client's parser alone.

Run ``pytest tests/bench/test_bench_exposition.py``: the numbers in brackets are ratios within a
group, measured in one run.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.upgrade import Upgrader
from vllm_observe.serve.render import Format, render

CAPTURES = Path(__file__).parents[1] / "data" / "captures" / "vllm-0.32.0"
PAGES = [(CAPTURES / name).read_bytes() for name in ("saturated.prom", "saturated-1s-later.prom")]


def in_turn(work):
    """Do the work on a page that differs from the one before."""
    pages = itertools.cycle(PAGES)
    return lambda: work(next(pages))


def rewritten(page, factor):
    """The page with every value changed: more than any server does between two scrapes."""
    lines = []
    for line in page.decode().splitlines():
        series, _, value = line.rpartition(" ")
        changes = not line.startswith("#") and "_created" not in series
        lines.append(f"{series} {float(value) * factor + 0.123!r}\n" if changes else f"{line}\n")
    return "".join(lines).encode()


class Scrape:
    """What the sidecar does with a page."""

    def __init__(self):
        self.parser, self.upgrader = ExpositionParser(), Upgrader()

    def parse(self, page):
        return self.parser.parse(page, None).families

    def upgrade(self, page):
        return self.upgrader.upgrade(self.parse(page)).families

    def render(self, page):
        return render(self.upgrade(page), Format.OPENMETRICS_1_0)


@pytest.mark.benchmark(group="one scrape")
def test_prometheus_client_parses(benchmark):
    benchmark(in_turn(lambda page: list(text_string_to_metric_families(page.decode()))))


@pytest.mark.benchmark(group="one scrape")
def test_parse_upgrade_and_render(benchmark):
    benchmark(in_turn(Scrape().render))


@pytest.mark.benchmark(group="one scrape")
def test_parse_upgrade_and_render_when_every_value_changed(benchmark):
    pages = itertools.cycle([rewritten(PAGES[0], 1.01), rewritten(PAGES[0], 1.02)])
    scrape = Scrape()
    benchmark(lambda: scrape.render(next(pages)))


@pytest.mark.benchmark(group="one scrape")
def test_parse_upgrade_and_render_the_first_time(benchmark):
    benchmark(in_turn(lambda page: Scrape().render(page)))


@pytest.mark.benchmark(group="its parts")
def test_parse(benchmark):
    benchmark(in_turn(Scrape().parse))


@pytest.mark.benchmark(group="its parts")
def test_upgrade(benchmark):
    scrape = Scrape()
    families = itertools.cycle([scrape.parse(page) for page in PAGES])
    benchmark(lambda: scrape.upgrader.upgrade(next(families)))


@pytest.mark.benchmark(group="its parts")
@pytest.mark.parametrize("fmt", Format)
def test_render(benchmark, fmt):
    families = Scrape().upgrade(PAGES[0])
    benchmark(render, families, fmt)
