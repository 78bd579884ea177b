"""The parser against prometheus_client: its writers write what the parser reads, its parsers judge.

Families are made at random and written by prometheus_client. What is read of them must be what was
made, and what prometheus_client's own parsers read.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from prometheus_client import exposition as text_writer
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_writer
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text
from prometheus_client.samples import Exemplar as TheirExemplar
from prometheus_client.samples import Sample as TheirSample
from prometheus_client.samples import Timestamp

from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.upgrade import Upgrader
from vllm_observe.errors import ScrapeError
from vllm_observe.model import Exemplar
from vllm_observe.serve.render import Format, render

CAPTURES = sorted((Path(__file__).parents[1] / "data" / "captures").glob("*/*.prom"))
TEXT = "text/plain; version=0.0.4"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

few = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# --- What pages are made of ----------------------------------------------------------------------

stems = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
label_names = st.from_regex(r"[a-z][a-zA-Z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: name not in {"le", "quantile"}
)
words = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"\n{}=, #'), max_size=12)
labels = st.dictionaries(label_names, words, max_size=3)
anything = st.floats(width=64)
amounts = st.floats(min_value=0, allow_nan=False)
counts = st.integers(min_value=0, max_value=2**60)


@st.composite
def exemplars(draw):
    names = draw(st.dictionaries(label_names, words, max_size=2))
    stamp = draw(st.none() | st.builds(Timestamp, st.integers(0, 2**33), st.integers(0, 999_999_999)))
    return TheirExemplar(names, draw(st.floats(allow_nan=False)), stamp)


@st.composite
def histograms(draw, name, own):
    bounds = sorted(draw(st.sets(st.floats(0, 1e6), min_size=0, max_size=3)))
    total, samples = 0, []
    for bound in [*bounds, math.inf]:
        total += draw(st.integers(0, 1000))
        le = "+Inf" if bound == math.inf else repr(bound)
        samples.append(
            TheirSample(f"{name}_bucket", {**own, "le": le}, total, None, draw(st.none() | exemplars()))
        )
    samples.append(TheirSample(f"{name}_count", own, total))
    samples.append(TheirSample(f"{name}_sum", own, draw(amounts)))
    return samples


@st.composite
def samples(draw, kind, name):
    made = []
    for own in draw(
        st.lists(labels, min_size=1, max_size=3, unique_by=lambda own: tuple(sorted(own.items())))
    ):
        if kind == "counter":
            made.append(TheirSample(f"{name}_total", own, draw(amounts), None, draw(st.none() | exemplars())))
        elif kind == "histogram":
            made += draw(histograms(name, own))
        elif kind == "summary":
            value = draw(amounts | st.just(math.nan))
            made.append(TheirSample(name, {**own, "quantile": "0.5"}, value))
            made.append(TheirSample(f"{name}_count", own, draw(counts)))
            made.append(TheirSample(f"{name}_sum", own, draw(amounts)))
        else:
            made.append(TheirSample(name, own, draw(anything)))
    return made


@st.composite
def pages(draw):
    """Metrics whose names cannot meet."""
    made = []
    for place in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["counter", "gauge", "histogram", "summary", "unknown"]))
        metric = Metric(f"f{place}{draw(stems)}x", draw(words), kind)
        metric.samples = draw(samples(kind, metric.name))
        made.append(metric)
    return made


class Registry:
    """What prometheus_client's writers collect from."""

    def __init__(self, metrics):
        self._metrics = metrics

    def collect(self):
        return self._metrics


def in_text(metrics):
    return text_writer.generate_latest(Registry(metrics), escaping="allow-utf-8")


def in_openmetrics(metrics, escaping="allow-utf-8"):
    return openmetrics_writer.generate_latest(Registry(metrics), escaping=escaping)


# --- What is compared ----------------------------------------------------------------------------


def number(value):
    return "NaN" if math.isnan(value) else float(value)


def theirs(metrics):
    return [
        (sample.name, dict(sample.labels), number(sample.value), metric.type.replace("untyped", "unknown"))
        for metric in metrics
        for sample in metric.samples
    ]


def ours(families):
    return [
        (sample.series.name, dict(sample.series.labels), number(sample.value), family.kind.value)
        for family in families
        for sample in family.samples
    ]


def readable_by_the_client_library(metrics):
    """Its OpenMetrics parser (0.26) takes a quote in an exemplar's label for the label's end."""
    exemplars = [sample.exemplar for metric in metrics for sample in metric.samples if sample.exemplar]
    return not any('"' in value for exemplar in exemplars for value in exemplar.labels.values())


def parse(page, content_type):
    exposition = ExpositionParser().parse(page, content_type)
    assert not exposition.dropped
    return exposition.families


@few
@given(pages())
def test_text_is_read_as_it_was_made_and_as_the_client_library_reads_it(metrics):
    page = in_text(metrics)

    families = parse(page, TEXT)

    assert ours(families) == theirs(metrics)
    assert ours(families) == theirs(read_text(page.decode()))


@few
@given(pages())
def test_openmetrics_is_read_as_it_was_made_and_as_the_client_library_reads_it(metrics):
    page = in_openmetrics(metrics)

    families = parse(page, OPENMETRICS)

    assert ours(families) == theirs(metrics)
    assert [family.help for family in families] == [
        metric.documentation.lstrip(" \t").rstrip(" \t\r") for metric in metrics
    ]
    assert [sample.exemplar for family in families for sample in family.samples] == [
        sample.exemplar
        and Exemplar(
            tuple(sorted(sample.exemplar.labels.items())),
            sample.exemplar.value,
            sample.exemplar.timestamp and float(sample.exemplar.timestamp),
        )
        for metric in metrics
        for sample in metric.samples
    ]
    if readable_by_the_client_library(metrics):
        assert ours(families) == theirs(read_openmetrics(page.decode()))


@few
@given(pages())
def test_colons_that_a_writer_takes_from_its_samples_are_given_back(metrics):
    """The client library writes a name with a colon so for Prometheus 2: rightly described, wrongly sampled."""
    assert ours(parse(in_openmetrics(metrics, escaping="underscores"), OPENMETRICS)) == theirs(metrics)


@few
@given(pages(), st.sampled_from(Format))
def test_what_is_rendered_is_read_again_by_the_client_library(metrics, fmt):
    families = parse(in_openmetrics(metrics), OPENMETRICS)

    assume(readable_by_the_client_library(metrics))

    page = render(families, fmt).decode()

    again = read_text(page) if fmt is Format.TEXT_0_0_4 else read_openmetrics(page)
    assert theirs(again) == theirs(metrics)


# --- Pages that nobody made ----------------------------------------------------------------------

PIECES = [
    *[bytes([byte]) for byte in b'\n\r\t "\\{}=,#_:.-+0e\x00\xff\xc3'],
    b"# EOF\n",
    b"# TYPE vllm:num_requests_running histogram\n",
    b"# HELP ",
    b"NaN",
    b"-1",
    b"_created",
    b'pid="7",',
    b"1e400",
    b'{"a.b"} 1\n',
]


def excerpt(path):
    """Every sixth family of a page, which is short and has all kinds of families."""
    families = path.read_bytes().split(b"# HELP ")[1:]
    return b"".join(b"# HELP " + family for family in families[::6])


EXCERPTS = [excerpt(path) for path in CAPTURES]


def mangled(page, seed):
    """A page with a few of its bytes changed, by the seed."""
    chance = random.Random(seed)
    page = bytearray(page)
    for _ in range(chance.randint(1, 8)):
        start = chance.randrange(len(page))
        end = start + chance.choice([0, 1, 2, 40, 400])
        change = chance.choice(["cut", "insert", "repeat", "move"])
        piece = bytes(page[start:end])
        if change in {"cut", "move"}:
            del page[start:end]
        if change == "insert":
            page[start:start] = chance.choice(PIECES)
        if change in {"repeat", "move"}:
            at = chance.randrange(len(page) + 1)
            page[at:at] = piece
        if not page:
            break
    return bytes(page)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(EXCERPTS),
    st.integers(0, 2**32),
    st.sampled_from([TEXT, OPENMETRICS, None]),
    st.booleans(),
)
def test_mangled_pages_give_a_valid_page_or_a_reason(page, seed, content_type, openmetrics):
    page = mangled(page + (b"# EOF\n" if openmetrics else b""), seed)
    families, refusal = upgraded(page, content_type)

    assert refusal.isprintable()
    assert_valid(families)


def upgraded(page, content_type):
    try:
        return Upgrader().upgrade(ExpositionParser().parse(page, content_type).families).families, ""
    except ScrapeError as error:
        return (), str(error)


def assert_valid(families):
    written = sorted(
        (sample.series.name, sorted(sample.series.labels)) for f in families for sample in f.samples
    )
    for fmt, read in ((Format.TEXT_0_0_4, read_text), (Format.OPENMETRICS_1_0, read_openmetrics)):
        again, refusal = read_by_them(read, render(families, fmt).decode())
        # How the numbers of one histogram go together is the server's to answer for.
        if not refusal.startswith(("Bucket value", "Count value", "Count does not match")):
            assert refusal == ""
            assert written == sorted((s.name, sorted(s.labels.items())) for f in again for s in f.samples)


def read_by_them(read, page):
    try:
        return list(read(page)), ""
    except ValueError as error:
        return [], str(error)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=300) | st.lists(st.sampled_from(PIECES)).map(b"".join),
    st.sampled_from([TEXT, OPENMETRICS]),
)
def test_any_bytes_give_families_or_a_reason(page, content_type):
    families, refusal = upgraded(page, content_type)

    assert bool(families) != bool(refusal)
    assert refusal.isprintable()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(EXCERPTS), st.lists(st.integers(0, 2**32), min_size=1, max_size=4))
def test_a_parser_that_saw_other_pages_reads_the_same_as_a_new_one(page, seeds):
    parser = ExpositionParser()
    for seed in seeds:
        for body in (mangled(page, seed), page):
            assert outcome(parser, body) == outcome(ExpositionParser(), body)


def outcome(parser, body):
    try:
        families, dropped = parser.parse(body, None)
    except ScrapeError as error:
        return error.reason
    return (
        [(family.name, family.kind, family.help, family.unit) for family in families],
        ours(families),
        dropped,
    )
