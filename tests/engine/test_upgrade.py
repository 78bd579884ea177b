from __future__ import annotations

import math
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.upgrade import LoraState, Upgrader
from vllm_observe.errors import Drop, ScrapeError, ScrapeFailure
from vllm_observe.model import Family, Kind, Sample, Series
from vllm_observe.signals import BY_KEY

DATA = Path(__file__).parents[1] / "data"

MODEL = 'model_name="tiny"'
V1 = f'engine="0",{MODEL}'


def families(page):
    body = page if isinstance(page, bytes) else page.encode()
    return ExpositionParser().parse(body, None).families


def upgrade(page):
    return Upgrader().upgrade(families(page))


def values(upgraded):
    """Each series as it is written, with its value; a series that comes twice fails."""
    samples = [sample for family in upgraded.families for sample in family.samples]
    found = {sample.series.text: sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def kinds(upgraded):
    return {family.name: family.kind for family in upgraded.families}


def vllm_page(*lines):
    """A page that vLLM may well give, so that the rest of it is all that is upgraded."""
    return "\n".join([*lines, "# TYPE vllm:anchor gauge", "vllm:anchor 1", ""])


def rest(upgraded):
    found = values(upgraded)
    assert found.pop("vllm:anchor") == 1.0
    return found


# --- Names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["old", "new", "both"])
def test_case_01_each_spelling_alone_or_together_gives_one_reading(page):
    found = values(upgrade((DATA / f"cases/01-kv-rename/{page}.prom").read_bytes()))

    labels = 'engine="0",model_name="acme/falcon-mini"'
    assert found[f"vllm:kv_cache_usage_perc{{{labels}}}"] == 0.42
    assert len([name for name in found if "cache_usage" in name]) == 1
    if page == "both":
        assert found[f"vllm:prefix_cache_hits_total{{{labels}}}"] == 120.0
        assert found[f"vllm:prefix_cache_queries_total{{{labels}}}"] == 300.0
        assert len(found) == 3


@pytest.mark.parametrize("prefix", ["vllm:", "ray_vllm:", "kserve_vllm:", "vllm_omni:", "ray_vllm_", "vllm_"])
def test_every_wrapper_s_prefix_becomes_vllm_s(prefix):
    upgraded = upgrade(
        f"# TYPE {prefix}num_requests_running gauge\n{prefix}num_requests_running{{{V1}}} 3\n"
        f"# TYPE {prefix}time_to_first_token_seconds histogram\n"
        f'{prefix}time_to_first_token_seconds_bucket{{{V1},le="+Inf"}} 2\n'
        f"{prefix}time_to_first_token_seconds_count{{{V1}}} 2\n"
        f"{prefix}time_to_first_token_seconds_sum{{{V1}}} 0.5\n"
    )

    assert values(upgraded) == {
        f"vllm:num_requests_running{{{V1}}}": 3.0,
        f'vllm:time_to_first_token_seconds_bucket{{{V1},le="+Inf"}}': 2.0,
        f"vllm:time_to_first_token_seconds_count{{{V1}}}": 2.0,
        f"vllm:time_to_first_token_seconds_sum{{{V1}}}": 0.5,
    }
    assert upgraded.found["running"] == f"{prefix}num_requests_running"
    assert upgraded.found["ttft"] == f"{prefix}time_to_first_token_seconds"


@pytest.mark.parametrize("swap", [False, True])
def test_today_s_name_wins_whichever_comes_first(swap):
    old = f"# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{{{V1}}} 0.1\n"
    new = f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{{{V1}}} 0.2\n"

    upgraded = upgrade(new + old if swap else old + new)

    assert values(upgraded) == {f"vllm:kv_cache_usage_perc{{{V1}}}": 0.2}
    assert upgraded.found["kv_usage"] == "vllm:kv_cache_usage_perc"
    assert not upgraded.dropped


def test_an_engine_that_only_the_former_name_knows_is_not_lost():
    upgraded = upgrade(
        "# TYPE vllm:gpu_cache_usage_perc gauge\n"
        f'vllm:gpu_cache_usage_perc{{engine="0",{MODEL}}} 0.1\nvllm:gpu_cache_usage_perc{{engine="1",{MODEL}}} 0.3\n'
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        f'vllm:kv_cache_usage_perc{{engine="0",{MODEL},extra="x"}} 0.2\n'
    )

    assert sorted(values(upgraded).values()) == [0.2, 0.3]


def test_a_former_name_without_an_engine_is_the_same_engine_0():
    upgraded = upgrade(
        f"# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{{{MODEL}}} 0.1\n"
        f"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{{{V1}}} 0.2\n"
    )

    assert list(values(upgraded).values()) == [0.2]


def test_a_former_name_without_an_engine_adds_none_to_those_that_today_s_name_has():
    upgraded = upgrade(
        f"# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{{{MODEL}}} 0.1\n"
        'vllm:gpu_cache_usage_perc{model_name="other"} 0.4\n'
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        f'vllm:kv_cache_usage_perc{{engine="1",{MODEL}}} 0.2\nvllm:kv_cache_usage_perc{{engine="2",{MODEL}}} 0.3\n'
    )

    assert values(upgraded) == {
        'vllm:kv_cache_usage_perc{engine="1",model_name="tiny"}': 0.2,
        'vllm:kv_cache_usage_perc{engine="2",model_name="tiny"}': 0.3,
        'vllm:kv_cache_usage_perc{engine="0",model_name="other"}': 0.4,
    }
    assert not upgraded.dropped


def test_two_names_of_different_types_are_no_names_of_one_thing():
    upgraded = upgrade(
        f'# TYPE vllm:x_total counter\nvllm:x_total{{engine="0",{MODEL}}} 1\n'
        f'# TYPE ray_vllm:x_total gauge\nray_vllm:x_total{{engine="1",{MODEL}}} -2\n'
    )

    assert list(values(upgraded).values()) == [1.0]
    assert upgraded.dropped == {Drop.NAME_CLASH: 1}


def test_one_histogram_under_two_names_is_never_mixed():
    def histogram(name, bounds):
        buckets = "".join(f'{name}_bucket{{{V1},le="{le}"}} {count}\n' for le, count in bounds.items())
        return f"# TYPE {name} histogram\n{buckets}{name}_count{{{V1}}} 2\n{name}_sum{{{V1}}} 2\n"

    upgraded = upgrade(
        histogram("vllm:time_per_output_token_seconds", {"0.025": 1, "+Inf": 2})
        + histogram("vllm:inter_token_latency_seconds", {"0.01": 1, "+Inf": 2})
    )

    assert {sample.series.label("le") for family in upgraded.families for sample in family.samples} == {
        None,
        "0.01",
        "+Inf",
    }


def test_v0_series_get_the_engine_they_lack_and_foreign_ones_do_not():
    upgraded = upgrade((DATA / "captures/vllm-0.9.2-v0/saturated.prom").read_bytes())

    assert values(upgraded)['vllm:num_requests_running{engine="0",model_name="tiny"}'] >= 0
    for family in upgraded.families:
        for sample in family.samples:
            assert (sample.series.label("engine") == "0") == family.name.startswith("vllm:")


def test_an_empty_family_and_the_interpreter_s_own_are_left_out():
    upgraded = upgrade(
        vllm_page(
            "# TYPE vllm:num_requests_waiting gauge",
            "# TYPE python_gc_objects_collected_total counter",
            'python_gc_objects_collected_total{generation="0"} 1',
            "# TYPE python_info gauge",
            "python_info 1",
        )
    )

    assert rest(upgraded) == {}
    assert not upgraded.dropped


def test_families_of_others_pass():
    lines = ["# TYPE process_open_fds gauge", "process_open_fds 3", "# TYPE lmcache:hits_total counter"]
    lines += ['lmcache:hits_total{pid="7"} 4', "# TYPE vllm_router_requests_total counter"]
    lines += ["vllm_router_requests_total 5", "# TYPE python_thing gauge", "python_thing 6"]

    assert rest(upgrade(vllm_page(*lines))) == {
        "process_open_fds": 3.0,
        'lmcache:hits_total{pid="7"}': 4.0,
        "vllm_router_requests_total": 5.0,
        "python_thing": 6.0,
    }


@pytest.mark.parametrize("name", ["vllm_observe_x", "vllm_observe:x", "vllm:observe_x", '"vllm.observe.x"'])
def test_our_own_names_are_reserved(name):
    line = f"{{{name}}} 1" if name.startswith('"') else f"{name} 1"
    upgraded = upgrade(vllm_page(f"# TYPE {name} gauge", line))

    assert rest(upgraded) == {}
    assert upgraded.dropped == {Drop.RESERVED_NAME: 1}


def test_names_that_only_utf8_can_write_are_written_with_underscores():
    upgraded = upgrade(
        vllm_page(
            '# TYPE "http.server.é" counter',
            '{"http.server.é_total","my.label"="a",x="b"} 1',
            '{"1x","__.name__"="a"} 2',
            '{"y","a.b"="1","a-b"="2"} 3',
            '{"z","_.name__"="1"} 4',
        )
    )

    assert rest(upgraded) == {
        'http_server___total{my_label="a",x="b"}': 1.0,
        '_1x{___name__="a"}': 2.0,
    }
    assert upgraded.dropped == {Drop.NAME_CLASH: 2}


# --- Types ---------------------------------------------------------------------------------------


def test_a_counter_without_total_becomes_unknown():
    upgraded = upgrade(
        vllm_page("# TYPE requests counter", "requests 1", "# TYPE a_total counter", "a_total 2")
    )

    assert kinds(upgraded)["requests"] is Kind.UNKNOWN
    assert kinds(upgraded)["a_total"] is Kind.COUNTER
    assert rest(upgraded) == {"requests": 1.0, "a_total": 2.0}


def test_types_that_prometheus_does_not_have_promise_less():
    upgraded = upgrade(
        vllm_page(
            "# TYPE a info",
            'a_info{x="1"} 1',
            "# TYPE b stateset",
            'b{b="on"} 1',
            "# TYPE c gaugehistogram",
            'c_bucket{le="+Inf"} 1',
            "c_gcount 1",
            "c_gsum -2",
        )
        + "# EOF\n"
    )

    assert kinds(upgraded) == {
        "a_info": Kind.GAUGE,
        "b": Kind.GAUGE,
        "c_bucket": Kind.UNKNOWN,
        "c_gcount": Kind.UNKNOWN,
        "c_gsum": Kind.UNKNOWN,
        "vllm:anchor": Kind.GAUGE,
    }


def test_what_comes_without_types_gets_those_of_the_table():
    upgraded = upgrade(
        f"vllm:num_requests_running{{{V1}}} 1\nvllm:prompt_tokens_total{{{V1}}} 2\n"
        f'vllm:time_per_output_token_seconds_bucket{{{V1},le="+Inf"}} 3\n'
        f"vllm:time_per_output_token_seconds_count{{{V1}}} 3\nvllm:time_per_output_token_seconds_sum{{{V1}}} 4\n"
        "other_bucket 1\n"
    )

    assert kinds(upgraded) == {
        "vllm:num_requests_running": Kind.GAUGE,
        "vllm:prompt_tokens_total": Kind.COUNTER,
        "vllm:inter_token_latency_seconds": Kind.HISTOGRAM,
        "other_bucket": Kind.UNKNOWN,
    }
    assert len(values(upgraded)) == 6


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["# TYPE a gauge", "a 1"], ["# TYPE a_total counter", "a_total 2"]),
        (["# TYPE a_total counter", "a_total 1"], ["# TYPE a gauge", "a 2"]),
        (["# TYPE a summary", "a_count 1"], ["# TYPE a_sum gauge", "a_sum 2"]),
        (["# TYPE a_sum gauge", "a_sum 1"], ["# TYPE a summary", "a_count 2"]),
        (["# TYPE a_count gauge", "a_count 1"], ["# TYPE a histogram", 'a_bucket{le="+Inf"} 2']),
        (['# TYPE "a.b" gauge', '{"a.b"} 1'], ["# TYPE a_b counter", "a_b_total 2"]),
    ],
)
def test_of_two_families_that_cannot_share_a_page_the_later_goes(first, second):
    upgraded = upgrade(vllm_page(*first, *second))

    assert list(rest(upgraded).values()) == [1.0]
    assert upgraded.dropped == {Drop.NAME_CLASH: 1}


# --- Distributions -------------------------------------------------------------------------------


def test_buckets_are_put_in_order_and_their_histogram_together():
    upgraded = upgrade(
        vllm_page(
            "# TYPE h histogram",
            'h_sum{a="1"} 9',
            'h_bucket{a="1",le="+Inf"} 4',
            'h_bucket{a="2",le="+Inf"} 5',
            'h_bucket{a="1",le="10"} 3',
            'h_bucket{a="1",le="2.5"} 2',
            'h_count{a="2"} 5',
            'h_count{a="1"} 4',
            'h_sum{a="2"} 8',
        )
    )

    assert [sample.series.text for sample in upgraded.families[0].samples] == [
        'h_bucket{a="1",le="2.5"}',
        'h_bucket{a="1",le="10.0"}',
        'h_bucket{a="1",le="+Inf"}',
        'h_count{a="1"}',
        'h_sum{a="1"}',
        'h_bucket{a="2",le="+Inf"}',
        'h_count{a="2"}',
        'h_sum{a="2"}',
    ]


def test_a_histogram_s_count_and_its_last_bucket_stand_for_each_other():
    upgraded = upgrade(
        vllm_page(
            "# TYPE h histogram",
            'h_bucket{a="1",le="1"} 3',
            'h_count{a="1"} 4',
            'h_sum{a="1"} 5',
            'h_bucket{a="2",le="inf"} 6',
            'h_sum{a="2"} 7',
            'h_bucket{a="3",le="+Inf"} 8',
            'h_count{a="3"} 8',
        )
    )

    assert rest(upgraded) == {
        'h_bucket{a="1",le="1.0"}': 3.0,
        'h_bucket{a="1",le="+Inf"}': 4.0,
        'h_count{a="1"}': 4.0,
        'h_sum{a="1"}': 5.0,
        'h_bucket{a="2",le="+Inf"}': 6.0,
        'h_count{a="2"}': 6.0,
        'h_sum{a="2"}': 7.0,
        'h_bucket{a="3",le="+Inf"}': 8.0,
    }


def test_a_histogram_of_which_nothing_is_whole_is_counted():
    upgraded = upgrade(
        vllm_page(
            "# TYPE h histogram",
            'h_bucket{a="1",le="1"} 3',
            'h_sum{a="1"} 5',
            'h_bucket{a="2",le="+Inf"} 1',
            'h_bucket{a="2",le="x"} 1',
            'h_bucket{a="2"} 1',
            'h_bucket{a="2",le="NaN"} 1',
            'h_bucket{a="2",le="Inf"} 1',
            "# TYPE s summary",
            's{quantile="0.5"} 1',
            's{quantile="1.5"} 1',
            "s 1",
        )
    )

    assert rest(upgraded) == {'h_bucket{a="2",le="+Inf"}': 1.0, 's{quantile="0.5"}': 1.0}
    assert upgraded.dropped == {Drop.BAD_VALUE: 7, Drop.DUPLICATE: 1}


# --- Processes -----------------------------------------------------------------------------------


def test_series_of_several_processes_become_one():
    lines = [
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f'vllm:kv_cache_usage_perc{{{V1},pid="7"}} 0.0',
        f'vllm:kv_cache_usage_perc{{{V1},pid="8"}} 0.75',
        "# TYPE vllm:num_requests_running gauge",
        f'vllm:num_requests_running{{{V1},pid="7"}} NaN',
        f'vllm:num_requests_running{{{V1},pid="8"}} 4',
        "# TYPE vllm:prompt_tokens_total counter",
        f'vllm:prompt_tokens_total{{{V1},pid="7"}} 10',
        f'vllm:prompt_tokens_total{{{V1},pid="8"}} 5',
        "# TYPE vllm:unheard_of gauge",
        'vllm:unheard_of{pid="7"} 1',
        'vllm:unheard_of{pid="8"} 2',
    ]

    assert rest(upgrade(vllm_page(*lines))) == {
        f"vllm:kv_cache_usage_perc{{{V1}}}": 0.75,
        f"vllm:num_requests_running{{{V1}}}": 4.0,
        f"vllm:prompt_tokens_total{{{V1}}}": 15.0,
        "vllm:unheard_of": 2.0,
    }


def test_a_series_that_comes_twice_for_one_process_is_counted():
    upgraded = upgrade(
        vllm_page(
            "# TYPE vllm:num_requests_running gauge",
            f"vllm:num_requests_running{{{MODEL}}} 1",  # as good as engine 0
            f"vllm:num_requests_running{{{V1}}} 2",
            f'vllm:num_requests_running{{{V1},pid="7"}} 3',
        )
    )

    assert list(rest(upgraded).values()) == [1.0]
    assert upgraded.dropped == {Drop.DUPLICATE: 2}


def test_case_05_no_engine_replaces_another():
    upgraded = upgrade((DATA / "cases/05-dp-engines/scrape.prom").read_bytes())

    running = [v for name, v in values(upgraded).items() if name.startswith("vllm:num_requests_running")]
    waiting = [v for name, v in values(upgraded).items() if name.startswith("vllm:num_requests_waiting")]
    assert (sum(running), sum(waiting)) == (126.0, 9.0)


# --- LoRA ----------------------------------------------------------------------------------------


def test_case_08_the_latest_series_is_the_state_and_none_is_passed_on():
    upgraded = upgrade(
        (DATA / "cases/08-lora-info/scrape.prom").read_bytes() + b"# TYPE vllm:anchor gauge\nvllm:anchor 1\n"
    )

    assert upgraded.lora == LoraState(4, ("tax-q", "faq-es"), ("hr-de",))
    assert rest(upgraded) == {}
    assert upgraded.found["lora"] == "vllm:lora_requests_info"


def test_the_state_follows_the_values_of_the_same_series():
    def page(first, second):
        return families(
            "# TYPE vllm:lora_requests_info gauge\n"
            f'vllm:lora_requests_info{{max_lora="None",running_lora_adapters="a, b,",waiting_lora_adapters=""}} {first}\n'
            f'vllm:lora_requests_info{{max_lora="2",running_lora_adapters="",waiting_lora_adapters="c"}} {second}\n'
        )

    upgrader = Upgrader()
    assert upgrader.upgrade(page(2, 1)).lora == LoraState(None, ("a", "b"), ())
    assert upgrader.upgrade(page(2, 3)).lora == LoraState(2, (), ("c",))
    assert upgrader.upgrade(page(2, "NaN")).lora == LoraState(None, ("a", "b"), ())
    assert upgrader.upgrade(page("NaN", "NaN")).lora is None


@pytest.mark.parametrize("limit", ["", "-1", "four", "\u0664", "9" * 5000])
def test_a_limit_that_is_no_number_is_not_known(limit):
    series = Series("vllm:lora_requests_info", (("max_lora", limit),))

    lora = Upgrader().upgrade([Family(series.name, Kind.GAUGE, "", [Sample(series, 1.0)])]).lora

    assert lora == LoraState(None, (), ())


def test_a_server_without_lora_has_no_state():
    assert upgrade(vllm_page()).lora is None


# --- No vLLM -------------------------------------------------------------------------------------


def refusal(page):
    with pytest.raises(ScrapeError) as caught:
        upgrade(page)
    assert caught.value.reason is ScrapeFailure.NO_VLLM_METRICS
    return str(caught.value)


def test_case_06_the_message_names_what_there_is():
    message = refusal((DATA / "cases/06-up-but-nothing/a_python_only_200.prom").read_bytes())

    assert "python_*" in message
    assert "process_*" in message
    assert "--disable-log-stats" not in message


def test_the_page_of_a_sidecar_without_its_vllm_is_called_by_its_name():
    assert "vllm_observe_*" in refusal(
        "# TYPE vllm_observe_scrape_success gauge\nvllm_observe_scrape_success 0\n"
    )


def test_http_families_alone_are_a_vllm_without_its_statistics():
    assert "--disable-log-stats" in refusal("# TYPE http_requests_total counter\nhttp_requests_total 1\n")


@pytest.mark.parametrize(
    "page",
    [
        "# EOF\n",
        "# TYPE vllm:num_requests_running gauge\n",
        "vllm_observe_x 1\n",
        "vllm_router_requests_total 1\n",
        "".join(f"kind{i}{'x' * 1000}_a 1\n" for i in range(1000)),
        '{"\\n\x1b[31m"} 1\n',
    ],
)
def test_any_page_without_vllm_s_families_is_refused_in_one_short_line(page):
    message = refusal(page)

    assert len(message) < 300
    assert message.isprintable()


# --- Whole pages, scrape by scrape ---------------------------------------------------------------


def test_the_families_of_today_s_vllm_pass_as_they_are():
    exposed = families((DATA / "captures/vllm-0.32.0/saturated.prom").read_bytes())

    passed = {family.name: family for family in Upgrader().upgrade(exposed).families}

    assert all(
        passed[family.name] is family for family in exposed if family.name.startswith(("vllm:", "http_"))
    )


@pytest.mark.parametrize(
    "path", sorted(DATA.glob("captures/*/*.prom")), ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_a_real_page_keeps_every_value_once(path):
    """The values by signal and suffix, as the client library reads them, with the old names mapped by hand."""
    today = {
        "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
        "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
        "vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
    }
    gone = ("python_gc_", "python_info", "vllm:lora_requests_info")
    expected = {}
    for family in text_string_to_metric_families(path.read_text(encoding="utf-8")):
        for sample in family.samples:
            if sample.name.startswith(gone) or sample.name.endswith("_created"):
                continue
            name = sample.name
            for old, new in today.items():
                name = new + name.removeprefix(old) if name.startswith(old) else name
            labels = dict(sample.labels)
            if name.startswith("vllm:"):
                labels.setdefault("engine", "0")
            if name.startswith("vllm:admission_rejections_total"):
                labels.pop("engine")
            expected.setdefault((name, frozenset(labels.items())), float(sample.value))

    upgraded = upgrade(path.read_bytes())

    assert {
        (sample.series.name, frozenset(sample.series.labels)): sample.value
        for family in upgraded.families
        for sample in family.samples
    } == expected
    assert not upgraded.dropped


def test_what_is_found_are_signals_by_the_names_on_the_page():
    body = (DATA / "captures/vllm-0.9.2-v1/loaded.prom").read_bytes()
    exposed = {family.name for family in families(body)}

    found = upgrade(body).found

    assert found["kv_usage"] == "vllm:kv_cache_usage_perc"
    assert found["itl"] == "vllm:time_per_output_token_seconds"
    assert set(found.values()) <= exposed
    assert set(found) <= set(BY_KEY)


def test_an_upgrader_follows_a_page_that_changes():
    parser, upgrader = ExpositionParser(), Upgrader()
    pages = sorted(DATA.glob("captures/*/*.prom"))

    for page in [*pages, *reversed(pages)]:
        exposed = parser.parse(page.read_bytes(), None).families
        assert upgrader.upgrade(exposed) == Upgrader().upgrade(exposed)


def test_values_and_help_are_those_of_the_latest_scrape():
    upgrader = Upgrader()
    series = Series("vllm:gpu_cache_usage_perc", (("model_name", "tiny"),))
    for value, words in [(0.1, "a"), (0.2, "a"), (math.inf, "b")]:
        family = Family(series.name, Kind.GAUGE, words, [Sample(series, value)])

        (upgraded,) = upgrader.upgrade([family]).families

        assert (upgraded.name, upgraded.help) == ("vllm:kv_cache_usage_perc", words)
        assert [sample.value for sample in upgraded.samples] == [value]


def test_a_type_that_changes_under_the_same_series_is_seen():
    series = Series("vllm:x", ())
    upgrader = Upgrader()
    for exposed, kind in [(Kind.GAUGE, Kind.GAUGE), (Kind.COUNTER, Kind.UNKNOWN)]:
        (upgraded,) = upgrader.upgrade([Family(series.name, exposed, "", [Sample(series, 1.0)])]).families

        assert upgraded.kind is kind


def test_a_count_with_a_bound_is_nobody_s():
    upgraded = upgrade(
        vllm_page(
            "# TYPE vllm:e2e_request_latency_seconds histogram",
            f'vllm:e2e_request_latency_seconds_count{{{V1},le="7680.0"}} 3',
            f'vllm:e2e_request_latency_seconds_bucket{{{V1},le="+Inf"}} 4',
        )
    )
    assert upgraded.dropped == {Drop.BAD_VALUE: 1}
    assert [text for text in values(upgraded) if "e2e" in text] == [
        'vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="tiny",le="+Inf"}'
    ]
