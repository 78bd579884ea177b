from __future__ import annotations

import contextlib
import math
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.errors import Drop, ScrapeError, ScrapeFailure
from vllm_observe.model import Exemplar, Kind

DATA = Path(__file__).parents[1] / "data"
CAPTURES = sorted(DATA.glob("captures/*/*.prom"))

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def parse(text, content_type=None, **limits):
    body = text if isinstance(text, bytes) else text.encode()
    return ExpositionParser(**limits).parse(body, content_type)


def values(exposition):
    """Each series as it is written, with its value."""
    return {sample.series.text: sample.value for family in exposition.families for sample in family.samples}


def kinds(exposition):
    return {family.name: family.kind for family in exposition.families}


def failure(text, content_type=None):
    with pytest.raises(ScrapeError) as caught:
        parse(text, content_type)
    return caught.value


# --- What real servers print ---------------------------------------------------------------------


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_real_page_gives_what_the_client_library_reads_of_it_but_creation_times(path):
    body = path.read_bytes()
    expected = {
        (sample.name, tuple(sample.labels.items())): (float(sample.value), family.type, family.documentation)
        for family in text_string_to_metric_families(body.decode())
        if not family.name.endswith("_created")
        for sample in family.samples
    }

    exposition = parse(body, TEXT)

    assert {
        (sample.series.name, sample.series.labels): (sample.value, family.kind.value, family.help.strip())
        for family in exposition.families
        for sample in family.samples
    } == expected
    assert not exposition.dropped


# --- Formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content_type",
    [OPENMETRICS, "application/openmetrics-text; version=0.0.1", TEXT, "text/html", "nonsense", "", None],
)
def test_a_page_that_ends_in_eof_is_openmetrics_whatever_its_type_says(content_type):
    exposition = parse('# TYPE x counter\n# HELP x a \\"word\\"\nx_total 3\n# EOF\n', content_type)

    assert [(family.name, family.kind, family.help) for family in exposition.families] == [
        ("x_total", Kind.COUNTER, 'a "word"')
    ]
    assert values(exposition) == {"x_total": 3.0}


@pytest.mark.parametrize("content_type", [TEXT, "text/plain", OPENMETRICS, "application/json", "", None])
@pytest.mark.parametrize(
    "page", ["# TYPE x_total counter\nx_total 3\n", "# TYPE x_total untyped\nx_total 3\n"]
)
def test_a_page_of_classic_text_is_read_whatever_its_type_says(page, content_type):
    assert values(parse(page, content_type)) == {"x_total": 3.0}


@pytest.mark.parametrize(
    ("page", "content_type"),
    [
        ("# TYPE x counter\nx_total 3\n", OPENMETRICS),
        ("# TYPE x gauge\nx 3\n# EO", OPENMETRICS),
        ("# TYPE x gauge\nx 3\n# EOF\n# TYPE y gauge\ny 4\n", OPENMETRICS),
        ("# TYPE x_total counter\nx_total 3\n", "application/openmetrics-text; version=2.0.0"),
    ],
)
def test_openmetrics_without_its_end_is_truncated(page, content_type):
    assert failure(page, content_type).reason is ScrapeFailure.TRUNCATED


def test_an_end_without_a_newline_and_an_empty_openmetrics_page_are_whole():
    assert values(parse("# TYPE x gauge\nx 3\n# EOF", OPENMETRICS)) == {"x": 3.0}
    assert parse("# EOF\n", OPENMETRICS).families == ()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n\t\r\n",
        b"<!DOCTYPE html>\n<html><body>x 1</body></html>\n",
        b'{"detail":"Not Found"}',
        b'[{"a": 1}]\n',
        b"Not Found",
        b"\x00\x01\xff\xfe\n\x80\n",
        "vllm:x 1\n".encode("utf-16"),
        b"\x1f\x8b\x08\x00" + bytes(range(256)),
        b"{" * 300_000,
        b"x" * 300_000,
    ],
)
@pytest.mark.parametrize("content_type", [TEXT, OPENMETRICS, None])
def test_what_is_no_exposition_is_malformed(body, content_type):
    assert failure(body, content_type).reason is ScrapeFailure.MALFORMED


@pytest.mark.parametrize(
    ("body", "word"), [(b"", "empty"), (b"<html>secret</html>", "HTML"), (b'{"token": "secret"}', "JSON")]
)
def test_the_message_says_what_the_answer_is_and_does_not_repeat_it(body, word):
    message = str(failure(body))

    assert word in message
    assert "secret" not in message
    assert "\n" not in message


def test_quoted_names_of_text_1_0_0_are_read():
    exposition = parse(
        '# HELP "a.b" dots\n# TYPE "a.b" gauge\n{"a.b"} 1\n{"a.b", "my \\"label\\""="x", c="y"} 2\n',
        "text/plain; version=1.0.0; escaping=allow-utf-8",
    )

    (family,) = exposition.families
    assert (family.name, family.kind, family.help) == ("a.b", Kind.GAUGE, "dots")
    assert [(sample.series.labels, sample.value) for sample in family.samples] == [
        ((), 1.0),
        ((('my "label"', "x"), ("c", "y")), 2.0),
    ]


def test_windows_newlines_a_byte_order_mark_and_blank_lines_are_read_over():
    page = b"\xef\xbb\xbf# TYPE x gauge\r\n\r\nx 1\r\n\r\n# TYPE y counter\r\ny_total 2.5\r\n# EOF\r\n"

    assert kinds(parse(page)) == {"x": Kind.GAUGE, "y_total": Kind.COUNTER}
    assert values(parse(page)) == {"x": 1.0, "y_total": 2.5}


@pytest.mark.parametrize("line", ["x\t1", "  x  1", "x 1 \t", 'x{ a = "b" , } 1', 'x{a="b"}1', "x{} 1"])
def test_blanks_may_stand_between_tokens(line):
    assert list(values(parse(line + "\n")).values()) == [1.0]


# --- Samples -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a\\\\b", "a\\b"),
        ('a\\"b', 'a"b'),
        ("a\\nb", "a\nb"),
        ("\\\\n", "\\n"),
        ("\\\\\\n", "\\\n"),
        ("\\x", "\\x"),
        ("} 1 # {", "} 1 # {"),
        ("é\u2028\x00\x1b,=", "é\u2028\x00\x1b,="),
        ("", ""),
    ],
)
def test_label_values_lose_their_escapes_and_keep_all_else(written, value):
    ((sample,),) = [family.samples for family in parse(f'x{{a="{written}",b="c"}} 1\n').families]

    assert sample.series.labels == (("a", value), ("b", "c"))


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1.0),
        ("-2.5", -2.5),
        ("+3", 3.0),
        ("1.5e+09", 1.5e9),
        ("1E-3", 1e-3),
        ("+Inf", math.inf),
        ("-Inf", -math.inf),
        ("inf", math.inf),
        ("1e999", math.inf),
        (".5", 0.5),
    ],
)
def test_numbers_are_read(written, value):
    assert values(parse(f"x {written}\n")) == {"x": value}


def test_nan_is_a_value_of_a_gauge():
    assert math.isnan(values(parse("# TYPE x gauge\nx NaN\n"))["x"])


def test_timestamps_are_read_over_in_both_formats():
    assert values(parse('x{a="b"} 1 1700000000000\ny 2 -5\n')) == {'x{a="b"}': 1.0, "y": 2.0}
    assert values(parse("# TYPE x gauge\nx 1 1700000000.123\n# EOF\n")) == {"x": 1.0}


def test_exemplars_are_kept():
    exposition = parse(
        "# TYPE h histogram\n"
        'h_bucket{le="1"} 3 # {trace_id="a b",x="\\"}"} 0.5 1700000000.25\n'
        'h_bucket{le="+Inf"} 4 1700000001 # {} 2.5\n'
        "# EOF\n"
    )

    assert [sample.exemplar for sample in exposition.families[0].samples] == [
        Exemplar((("trace_id", "a b"), ("x", '"}')), 0.5, 1700000000.25),
        Exemplar((), 2.5, None),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "x ",
        "x one",
        "x 1_000",
        "x \u0663",
        "x 1 2 3",
        "x 1 soon",
        "x 1 #",
        'x 1 # {a="b"}',
        'x 1 # {a="b"} one',
        'x 1 # {"name"} 1',
        "x-y 1",
        "1x 1",
        "x+1",
        "é 1",
        'x{a="b" 1',
        'x{a="b} 1',
        'x{a="b\\"} 1',
        "x{a=b} 1",
        "x{a} 1",
        'x{,a="b"} 1',
        'x{a="b",,c="d"} 1',
        'x{a="b"c="d"} 1',
        'x{a:b="c"} 1',
        'x{a="1",a="2"} 1',
        'x{__name__="y"} 1',
        'x{"y"} 1',
        '{"x","y"} 1',
        '{a="b"} 1',
        '{""} 1',
        "{} 1",
        "# TYPE x nonsense",
        "# TYPE x",
        "# TYPE h histogram\nh 1",
    ],
)
def test_a_malformed_line_is_counted_and_costs_no_neighbour(line):
    exposition = parse(f"before 1\n{line}\nafter 2\n")

    assert values(exposition) == {"before": 1.0, "after": 2.0}
    assert exposition.dropped == {Drop.MALFORMED_LINE: 1}


def test_bytes_that_are_no_utf8_are_replaced_in_their_label_value():
    exposition = parse(b'x{a="\xff\xfe"} 1\ny 2\n# HELP y caf\xe9\n')

    assert values(exposition) == {'x{a="\ufffd\ufffd"}': 1.0, "y": 2.0}
    assert not exposition.dropped


def test_a_label_value_that_is_too_long_costs_its_sample_alone():
    page = f'x{{a="{"é" * 5}"}} 1\ny{{a="{"é" * 6}"}} 2\nz{{a="{"b" * 7_000_000}"}} 3\nw 4\n'

    exposition = parse(page, max_value_bytes=10)

    assert values(exposition) == {f'x{{a="{"é" * 5}"}}': 1.0, "w": 4.0}
    assert exposition.dropped == {Drop.VALUE_TOO_LONG: 2}


def test_the_seven_megabyte_label_of_a_fork_does_not_cost_the_page():
    body = (DATA / "captures/vllm-0.32.0/idle.prom").read_bytes()
    huge = b'vllm:vllm_config_info{config="' + b"{'a': [1]}, " * 600_000 + b'"} 1.0\n'
    parser = ExpositionParser()

    exposition = parser.parse(body + huge + b"last 1\n", TEXT)

    assert exposition.dropped == {Drop.VALUE_TOO_LONG: 1}
    assert values(exposition) == {**values(parse(body)), "last": 1.0}


def test_lines_beyond_the_limit_are_counted():
    exposition = parse("a 1\nb 2\nc 3\nd 4\n\n", max_lines=2)

    assert values(exposition) == {"a": 1.0, "b": 2.0}
    assert exposition.dropped[Drop.TOO_MANY] > 0


def test_the_first_of_two_equal_series_counts_whatever_the_order_of_labels():
    exposition = parse('x{a="1",b="2"} 1\nx{b="2",a="1"} 2\nx{a="1",b="2"} 3\nx{a="1",b="3"} 4\n')

    assert values(exposition) == {'x{a="1",b="2"}': 1.0, 'x{a="1",b="3"}': 4.0}
    assert exposition.dropped == {Drop.DUPLICATE: 2}


@pytest.mark.parametrize(
    ("page", "kept"),
    [
        ("# TYPE c_total counter\nc_total -1\nok 1\n", {"ok": 1.0}),
        ("# TYPE c_total counter\nc_total NaN\nok 1\n", {"ok": 1.0}),
        ("# TYPE h histogram\nh_sum -1\nok 1\n", {"ok": 1.0}),
        ('# TYPE h histogram\nh_bucket{le="1"} NaN\nok 1\n', {"ok": 1.0}),
        ("# TYPE s summary\ns_count -0.5\nok 1\n", {"ok": 1.0}),
        ('# TYPE s summary\ns{quantile="0.5"} -1\nok 1\n', {"ok": 1.0}),
    ],
)
def test_a_number_that_a_type_cannot_have_is_counted(page, kept):
    exposition = parse(page)

    assert values(exposition) == kept
    assert exposition.dropped == {Drop.BAD_VALUE: 1}


def test_numbers_at_the_edge_of_a_type_are_kept():
    page = (
        '# TYPE c_total counter\nc_total +Inf\n# TYPE s summary\ns{quantile="0.5"} NaN\n'
        "# TYPE g gauge\ng -1\nunknown -2\n"
    )

    exposition = parse(page)

    assert not exposition.dropped
    assert len(values(exposition)) == 4


@pytest.mark.parametrize(
    "tail",
    [
        'z{a="b"',
        "z",
        'z{a="b"} ',
        'z{a="b"} 12',  # of 123.0, as the numbers before it are written
        'z{a="b"} 12.',
        'z{a="b"} 1.5e+0',
        'z{a="b"} -',
    ],
)
def test_a_sample_that_is_cut_off_is_dropped_and_counted(tail):
    exposition = parse(f"x 1.0\ny 2.5\n{tail}")

    assert values(exposition) == {"x": 1.0, "y": 2.5}
    assert exposition.dropped == {Drop.MALFORMED_LINE: 1}


@pytest.mark.parametrize("page", ["x 1.0\ny 2.5", "x 1\ny 2", "y 2", "x 1.5e+09\ny 2.0e+09", "x 3\ny NaN"])
def test_a_whole_sample_at_the_end_needs_no_newline(page):
    exposition = parse(page)

    assert len(values(exposition)) == page.count("\n") + 1
    assert not exposition.dropped


# --- Families ------------------------------------------------------------------------------------


def test_families_come_in_the_order_of_their_first_appearance_and_merge():
    exposition = parse(
        "b 1\n# TYPE a gauge\n# TYPE h histogram\n"
        'h_bucket{le="+Inf"} 1\na{x="1"} 2\nh_count 1\nb{x="1"} 3\nh_sum 4\na 5\n# HELP a late words\n'
    )

    assert [(family.name, len(family.samples)) for family in exposition.families] == [
        ("b", 2),
        ("a", 2),
        ("h", 3),
    ]
    assert exposition.families[1].help == "late words"


def test_a_type_may_come_after_its_samples_and_the_first_word_counts():
    exposition = parse(
        "x_total 1\n# TYPE x_total counter\n# TYPE x_total gauge\n# HELP x_total a\n# HELP x_total b\n"
    )

    assert [(f.name, f.kind, f.help) for f in exposition.families] == [("x_total", Kind.COUNTER, "a")]


def test_help_loses_the_escapes_that_its_format_has():
    page = '# HELP x a\\\\b\\nc\\"d\nx 1\n'

    assert parse(page).families[0].help == 'a\\b\nc\\"d'
    assert parse(page + "# EOF\n").families[0].help == 'a\\b\nc"d'


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("untyped", Kind.UNKNOWN),
        ("unknown", Kind.UNKNOWN),
        ("Gauge", Kind.GAUGE),
        ("info", Kind.INFO),
        ("stateset", Kind.STATESET),
        ("gaugehistogram", Kind.GAUGEHISTOGRAM),
    ],
)
def test_every_type_of_both_formats_is_known(type_, kind):
    assert kinds(parse(f"# TYPE x {type_}\n")) in ({"x": kind}, {"x_info": kind})


def test_families_without_a_type_are_unknown_one_for_each_sample_name():
    assert kinds(parse('h_bucket{le="+Inf"} 1\nh_count 1\n')) == {
        "h_bucket": Kind.UNKNOWN,
        "h_count": Kind.UNKNOWN,
    }


def test_a_unit_is_kept():
    assert (
        parse("# TYPE x_seconds gauge\n# UNIT x_seconds seconds\nx_seconds 1\n# EOF\n").families[0].unit
        == "seconds"
    )


@pytest.mark.parametrize(
    "page",
    [
        "# TYPE x_total counter\nx_total 1\n# TYPE x_created gauge\nx_created 1.7e9\n",
        "# TYPE x_created gauge\nx_created 1.7e9\n# TYPE x_total counter\nx_total 1\n",
        "# TYPE x_total counter\nx_total 1\nx_created 1.7e9\n",
        "# TYPE x counter\nx_total 1\nx_created 1.7e9\n# EOF\n",
        "# TYPE v:x counter\nv_x_total 1\nv_x_created 1.7e9\n# EOF\n",
        '# TYPE x histogram\nx_bucket{le="+Inf"} 1\n# TYPE x_created gauge\nx_created 1.7e9\n',
        "# TYPE x summary\nx_count 1\nx_created 1.7e9\n",
        "# TYPE v:x summary\nv_x_count 1\nv_x_created 1.7e9\n# EOF\n",
        '# TYPE x_total histogram\nx_total_bucket{le="+Inf"} 1\n# TYPE x_total_created gauge\nx_total_created 1e9\n',
        "x_total 1\nx_created 1.7e9\n",
    ],
)
def test_times_of_creation_are_no_data(page):
    exposition = parse(page)

    assert len(exposition.families) == 1
    assert list(values(exposition).values()) == [1.0]
    assert not exposition.dropped


def test_a_gauge_that_merely_ends_in_created_is_data():
    page = "# TYPE job_created gauge\njob_created 1.7e9\n# TYPE job gauge\njob 1\n"

    assert values(parse(page)) == {"job_created": 1.7e9, "job": 1.0}


def test_case_01_no_reading_is_a_time_of_creation():
    exposition = parse((DATA / "cases/01-kv-rename/both.prom").read_bytes())

    assert not [name for name in values(exposition) if "_created" in name]
    assert len(values(exposition)) == 6


def test_case_03_samples_whose_colon_was_rewritten_belong_to_their_metadata():
    exposition = parse((DATA / "cases/03-colon-rewritten/seen_by_prom2.om").read_bytes(), OPENMETRICS)

    assert [(family.name, family.kind, family.help) for family in exposition.families] == [
        ("vllm:kv_cache_usage_perc", Kind.GAUGE, "KV usage."),
        ("vllm:generation_tokens_total", Kind.COUNTER, "Tokens."),
    ]
    assert values(exposition) == {
        'vllm:kv_cache_usage_perc{engine="0",model_name="acme/falcon-mini"}': 0.93,
        'vllm:generation_tokens_total{engine="0",model_name="acme/falcon-mini"}': 51.0,
    }


def test_a_name_with_its_own_metadata_is_not_taken_for_a_rewritten_one():
    page = "# TYPE a:b gauge\na:b 1\n# TYPE a_b counter\na_b 2\n"

    assert kinds(parse(page)) == {"a:b": Kind.GAUGE, "a_b": Kind.COUNTER}


# --- From scrape to scrape -----------------------------------------------------------------------


def captured(name):
    return (DATA / "captures/vllm-0.32.0" / name).read_bytes()


def identities(exposition):
    return {
        sample.series.text: id(sample.series) for family in exposition.families for sample in family.samples
    }


def test_a_warm_parser_reads_the_same_as_a_cold_one_and_keeps_the_series():
    parser = ExpositionParser()
    pages = [
        captured(name)
        for name in ("saturated.prom", "saturated-1s-later.prom", "preempting-06.prom", "idle.prom")
    ]
    seen = {}

    for page in [*pages, *pages]:
        exposition = parser.parse(page, TEXT)

        assert exposition == parse(page, TEXT)
        now = identities(exposition)
        assert all(seen.get(series, identity) == identity for series, identity in now.items())
        seen = now


def test_rewritten_series_are_kept_too():
    page = "# TYPE v:x gauge\nv_x 1 1700000000\n# EOF\n"  # the timestamp keeps it off the fast way
    parser = ExpositionParser()

    assert identities(parser.parse(page.encode(), None)) == identities(parser.parse(page.encode(), None))


@pytest.mark.parametrize(
    "page",
    [
        "# TYPE c_total counter\nc_total -1\ng 2\n",
        "# TYPE c_total counter\nc_total NaN\ng 2\n",
        "# TYPE c_total counter\nc_total 1_0\ng 2\n",
        "# TYPE c_total counter\nc_total \u0663\ng 2\n",
        "# TYPE c_total counter\nc_total \ng 2\n",
        "# TYPE c_total counter\nc_total one\ng 2\n",
        "# TYPE c_total gauge\nc_total -1\ng 2\n",
        "# TYPE c_total counter\nc_total 1\ng 2",
        "# TYPE c_total counter\nc_total 1 5\ng 2\n",
        "# TYPE c_total counter\ng 2\nc_total 1\n",
        "# TYPE c_total counter\nc_total 1\ng 2\ng 3\n",
        "# TYPE c_total counter\nc_total 1\ng 2\n# EOF\n",
        "# TYPE c_total counter\nc_total 7\ng 2\n",
    ],
)
def test_whatever_changes_in_a_page_is_seen(page):
    parser = ExpositionParser()
    parser.parse(b"# TYPE c_total counter\nc_total 1\ng 2\n", TEXT)

    assert parser.parse(page.encode(), TEXT) == parse(page, TEXT)


@pytest.mark.parametrize(
    "page",
    [
        "x {}\n",
        "x {} 1700000000000\n",
        "x 1 {}\n",
        "x {}",
        " x {}\n",
        "x\t{}\n",
        "x {} \n",
        "x {}\r\n",
        "# TYPE x_total counter\nx_total {} # {{}} 1\n# EOF\n",
        "# TYPE x_total counter\nx_total 7 # {{}} {}\n# EOF\n",
        "x {}\nx 2\n",
        "x {}\nmalformed\n",
        "x {}\nmalformed {}",
        "# TYPE c_total counter\nc_total -1\nx {}\n",
        "# TYPE v:x gauge\nv_x {}\n",
    ],
)
def test_numbers_that_change_and_come_back_are_read_in_every_form(page):
    parser = ExpositionParser()
    for number in ("1.0", "2.0", "1.0", "3.5", "3.5"):
        body = page.format(number, number).encode()

        assert parser.parse(body, None) == parse(body)


def test_a_type_that_changes_from_scrape_to_scrape_is_seen():
    page = b"# TYPE x gauge\nx 1\n"
    parser = ExpositionParser()
    parser.parse(page, TEXT)

    with pytest.raises(ScrapeError):
        parser.parse(page, OPENMETRICS)
    assert values(parser.parse(page, TEXT)) == {"x": 1.0}


def test_a_failed_scrape_leaves_the_next_one_whole():
    page = captured("saturated.prom")
    parser = ExpositionParser()
    before = parser.parse(page, TEXT)
    for bad in (b"", b"<html>", page[:30_000].rsplit(b" ", 1)[0] + b" \xff"):
        with contextlib.suppress(ScrapeError):
            parser.parse(bad, TEXT)

    assert parser.parse(page, TEXT) == before


def test_series_that_are_gone_are_forgotten():
    parser = ExpositionParser()
    for scrape in range(50):
        parser.parse("".join(f'x{{i="{scrape}-{i}"}} 1\n' for i in range(20)).encode(), TEXT)

    assert len(parser._series) == 20


# --- Hostile pages -------------------------------------------------------------------------------

MEGABYTES = 2_000_000


@pytest.mark.parametrize(
    "unit",
    [
        b"\n",
        b"a\n",
        b"{",
        b'x{a="' + b'\\"' * 100_000 + b"\n",
        b"x{" + b'a="1",' * 40_000 + b"} 1\n",
        b"x{" + b'"a' * 100_000 + b"\n",
        b"x" + b" " * 200_000 + b"1\n",
        b"x " + b"1 " * 100_000 + b"\n",
        b"x " + b"9" * 200_000 + b"\n",
        b"#\t",
        b"# HELP x y\n",
        b"# TYPE x gauge\n",
        b'x{a="b"} 1 # {c="d"} 2\n',
        b"\xff",
    ],
)
def test_no_page_takes_more_than_its_length_is_worth(unit):
    page = unit * (MEGABYTES // len(unit) + 1)
    start = time.process_time()
    with contextlib.suppress(ScrapeError):
        ExpositionParser().parse(page, OPENMETRICS)

    # A quadratic way would take minutes. A linear one takes about a second at worst.
    assert time.process_time() - start < 10
