"""Servers whose histograms differ in their bounds: what is added up is what all of them have."""

from __future__ import annotations

import pytest

from vllm_observe.dashboards.metrics import vllm
from vllm_observe.dashboards.queries import buckets, quantile

A = 'job="vllm",instance="a:1"'
B = 'job="vllm",instance="b:1"'
TTFT = "vllm:time_to_first_token_seconds"


def grows(a_second):
    """Return a counter that grows so much a second, in samples every 30 s."""
    return f"0+{a_second * 30:g}x30"


def histogram(where, a_second):
    """Return the buckets of a server's histogram, and how much each grows a second, by their bounds."""
    return {
        f'{TTFT}_bucket{{{where},model_name="m",le="{bound}"}}': grows(grown)
        for bound, grown in a_second.items()
    }


#: On the one server one of 10 a second takes more than the 20 s at which its bounds end; on the other all take
#: 1 to 20 s. Only 1, 20 and +Inf are bounds of both.
OF_TWO_LAYOUTS = histogram(A, {"0.5": 4, "1": 5, "20": 9, "+Inf": 10}) | histogram(
    B, {"1": 0, "20": 10, "160": 10, "2560": 10, "+Inf": 10}
)


@pytest.mark.parametrize(("labels", "kept"), [((), "{}"), (("model_name",), '{model_name="m"}')])
def test_a_quantile_over_servers_with_other_buckets_lies_within_those_that_all_have(answers, labels, kept):
    """Of 20 a second 19 took up to 20 s: the last of them, more than that. No one knows more."""
    answers(quantile(0.99, vllm("ttft"), *labels).text, OF_TWO_LAYOUTS, {kept: 20})


def test_of_a_quantile_by_model_one_models_buckets_say_nothing_of_anothers(answers):
    """Each has one layout, of which all is used: 7.5 of 10 lies between 1 and 20 s, 2.5 of 4 on, or 7.5 of 10."""
    other = {name.replace('"m"', '"n"'): grown for name, grown in OF_TWO_LAYOUTS.items() if B in name}
    answers(
        quantile(0.75, vllm("ttft"), "model_name").text,
        {name: grown for name, grown in OF_TWO_LAYOUTS.items() if A in name} | other,
        {'{model_name="m"}': 1 + 19 * 2.5 / 4, '{model_name="n"}': 1 + 19 * 7.5 / 10},
    )


def test_a_heatmap_has_the_bounds_that_all_servers_have(answers):
    answers(
        buckets(vllm("ttft")).text,
        OF_TWO_LAYOUTS,
        {'{le="1"}': 300, '{le="20"}': 1140, '{le="+Inf"}': 1200},
    )


def test_of_servers_with_the_same_buckets_all_are_kept(answers):
    layout = {"0.5": 8, "1": 10, "+Inf": 10}
    series = histogram(A, layout) | histogram(B, layout)
    answers(buckets(vllm("ttft")).text, series, {'{le="0.5"}': 960, '{le="1"}': 1200, '{le="+Inf"}': 1200})
    answers(quantile(0.9, vllm("ttft")).text, series, {"{}": 0.75})
