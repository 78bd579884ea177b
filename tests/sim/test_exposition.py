"""Pages of a simulated vLLM as each of the 36 releases would write them."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.sims import arrival, deployment
from vllm_observe.engine.exposition import ExpositionParser
from vllm_observe.engine.sampling import engine_samples
from vllm_observe.engine.upgrade import Upgrader
from vllm_observe.signals import BY_KEY, resolve
from vllm_observe.sim.engine import State
from vllm_observe.sim.exposition import Exposition
from vllm_observe.sim.pages import Flavour, bounds_ever, flavours, page, releases
from vllm_observe.sim.play import play

DATA = Path(__file__).parents[1] / "data"
FACTS = json.loads((DATA / "vllm-metrics.json").read_text(encoding="utf-8"))
BUCKETS = json.loads((DATA / "vllm-buckets.json").read_text(encoding="utf-8"))
AGE = {release: age for age, release in enumerate(FACTS["releases"])}
BOTH = [(release, flavour) for release in FACTS["releases"] for flavour in flavours(release)]


def facts(release, flavour):
    return [
        row
        for row in FACTS["rows"]
        if AGE[row["first"]] <= AGE[release] <= AGE[row["last"]]
        and row["engine"] in (flavour.value, "any")
        and not row.get("hidden")
        and not row.get("gated_by")
    ]


def busy(ranks):
    """A server of two slots a rank that was busy for a while and still is."""
    one = deployment(engines=ranks, max_num_seqs=2, max_model_len=64)
    chat = [
        arrival(f"r{number}", at=number, prompt=8 + number, output=6, deferred_s=3.0 * (number % 5 == 4))
        for number in range(20)
    ]
    for _ in play(one, [*chat, arrival("long", at=20.0, prompt=64)], until=20.5):
        pass
    return one


@pytest.fixture(scope="module")
def server():
    return busy(2)


@pytest.fixture(scope="module")
def of_flavour(server):
    """A server for each engine: V0 has no data-parallel ranks."""
    return {Flavour.V0: busy(1), Flavour.V1: server}


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def test_releases_and_their_engines_are_those_of_the_facts():
    assert list(releases()) == FACTS["releases"]
    assert len(BOTH) == 36 - 1 + 9


@pytest.mark.parametrize(("release", "flavour"), BOTH)
def test_a_page_has_its_release_s_families_types_and_labels_and_no_others(of_flavour, release, flavour):
    found = families(Exposition(release, flavour=flavour, created=False).text(of_flavour[flavour]))

    told = {row["family"]: row for row in facts(release, flavour)}
    assert {name + "_total" * (family.type == "counter") for name, family in found.items()} == set(told)
    for name, family in found.items():
        row = told[name + "_total" * (family.type == "counter")]
        assert family.type == row["type"]
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(row["labels"])


@pytest.mark.parametrize(("release", "flavour"), BOTH)
def test_the_sidecar_reads_a_page_as_the_engines_told_it(of_flavour, release, flavour):
    server = of_flavour[flavour]
    text = Exposition(release, flavour=flavour).text(server)

    parsed = ExpositionParser().parse(text.encode(), "text/plain; version=0.0.4")
    upgraded = Upgrader().upgrade(parsed.families)
    found = engine_samples(upgraded.families, server.now)

    assert not parsed.dropped
    assert not upgraded.dropped
    exposed = {row["family"] for row in facts(release, flavour)}
    assert {key for key in resolve(exposed) if BY_KEY[key].name not in NO_CHILDREN} == upgraded.found.keys()
    if flavour is Flavour.V1:
        told = {sample.key.engine: sample for sample in server.samples()}
        for sample in found:
            real = told[sample.key.engine]
            for field in ("running", "kv_usage", "prompt_tokens", "generation_tokens", "finished", "steps"):
                assert getattr(sample, field) == getattr(real, field)
            if sample.waiting_capacity is not None:
                assert (sample.waiting, sample.waiting_deferred) == (real.waiting, real.waiting_deferred)
        assert len(found) == 2


#: V0 names these and never has a child of them without speculative decoding or a model's own timing.
NO_CHILDREN = {
    *("vllm:spec_decode_draft_acceptance_rate", "vllm:spec_decode_efficiency"),
    *("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"),
    *("vllm:spec_decode_num_emitted_tokens_total",),
    *("vllm:model_forward_time_milliseconds", "vllm:model_execute_time_milliseconds"),
}


#: Their bounds are the sizes for which CUDA graphs were captured, which a configuration decides.
CONFIGURED = {"vllm:iteration_tokens_total"}


@pytest.mark.parametrize(("release", "flavour"), BOTH)
def test_a_histogram_has_the_bounds_of_its_release(of_flavour, release, flavour):
    told = {
        row["family"]: row["buckets"]
        for row in BUCKETS
        if AGE[row["first"]] <= AGE[release] <= AGE[row["last"]] and row["engine"] in (flavour.value, "any")
    }
    found = families(Exposition(release, flavour=flavour).text(of_flavour[flavour]))
    histograms = {name: one for name, one in found.items() if one.type == "histogram"}
    assert histograms.keys() - CONFIGURED <= told.keys()
    for name in histograms.keys() & told.keys() - NO_CHILDREN:
        # Where they depend on the longest context, they are 1, 2 and 5 times the powers of ten up to 64.
        bounds = [1, 2, 5, 10, 20, 50] if isinstance(told[name], str) else told[name]
        shown = {float(one.labels["le"]) for one in histograms[name].samples if "le" in one.labels}
        assert shown == {*map(float, bounds), math.inf}


@pytest.mark.parametrize(("release", "flavour"), BOTH)
def test_a_histogram_s_buckets_rise_to_its_count(of_flavour, release, flavour):
    for family in families(Exposition(release, flavour=flavour).text(of_flavour[flavour])).values():
        children = {}
        for sample in family.samples if family.type == "histogram" else ():
            key = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
            children.setdefault(key, []).append(sample)
        for samples in children.values():
            buckets = [one.value for one in samples if one.name.endswith("_bucket")]
            counts = [one.value for one in samples if one.name.endswith("_count")]
            assert buckets == sorted(buckets)
            assert buckets[-1:] == counts


@pytest.mark.parametrize(
    ("release", "flavour", "capture"),
    [
        ("0.32.0", Flavour.V1, "vllm-0.32.0/saturated.prom"),
        ("0.16.0", Flavour.V1, "vllm-0.16.0-engine-dead/metrics.prom"),
        ("0.9.2", Flavour.V1, "vllm-0.9.2-v1/loaded.prom"),
        ("0.9.2", Flavour.V0, "vllm-0.9.2-v0/saturated.prom"),
    ],
)
def test_a_page_has_the_series_that_a_real_one_has(of_flavour, release, flavour, capture):
    """Names, labels and bounds of what a recorded server without options exposes are the same."""

    def shapes(found):
        shape = {}
        for name, family in found.items():
            for sample in family.samples:
                bound = sample.labels.get("le")
                if name.startswith(("vllm:", "http_")) and "cache_config" not in name:
                    labels = frozenset(sample.labels)
                    shape.setdefault((sample.name, labels), set()).add(
                        None if bound is None else float(bound)
                    )
        return shape

    real = shapes(families((DATA / "captures" / capture).read_text(encoding="utf-8")))
    made = shapes(families(Exposition(release, flavour=flavour).text(of_flavour[flavour])))
    longer = {name for name, bounds in real.items() if any(bound and bound > 64 for bound in bounds)}

    both = real.keys() & made.keys()
    assert len(both) > 40
    for name in both - longer:
        assert made[name] == real[name], name
    # Recorded with more options than none; and a dead engine has answered nothing and has no children.
    options = ("estimated_", "http_", "lora")
    assert not {name for name, _ in real.keys() - made.keys() if not any(part in name for part in options)}
    if flavour is Flavour.V1 and "dead" not in capture:
        assert not {
            name for name, _ in made.keys() - real.keys() if "http_" not in name and "lora" not in name
        }


def test_both_names_are_there_while_a_metric_is_renamed(server):
    found = families(Exposition("0.9.2").text(server))

    old, new = found["vllm:gpu_cache_usage_perc"], found["vllm:kv_cache_usage_perc"]
    assert [sample.value for sample in old.samples] == [sample.value for sample in new.samples]
    assert "vllm:gpu_cache_usage_perc" not in families(Exposition("0.11.0.post2").text(server))
    assert "vllm:kv_cache_usage_perc" not in families(Exposition("0.9.1").text(server))


def test_deferred_requests_were_not_among_the_waiting_before_0_20():
    one = deployment(max_num_seqs=1)
    arrivals = [arrival("a", output=9), arrival("b", output=1), arrival("c", deferred_s=100.0)]
    for _ in play(one, arrivals, until=2.0):
        pass

    def waiting(release):
        return families(Exposition(release).text(one))["vllm:num_requests_waiting"].samples[0].value

    assert (waiting("0.19.1"), waiting("0.20.0")) == (1.0, 2.0)


def test_a_step_s_tokens_held_cached_ones_before_0_23():
    one = deployment()
    first = arrival("a", prompt=16, output=1)
    for _ in play(one, [first, arrival("b", at=5.0, segments=first.prompt, output=1)], until=9.0):
        pass

    def tokens(release):
        samples = families(Exposition(release).text(one))["vllm:iteration_tokens_total"].samples
        return next(sample.value for sample in samples if sample.name.endswith("_sum"))

    assert (tokens("0.22.0"), tokens("0.23.0")) == (34.0, 22.0)


def test_created_is_when_the_process_began(server):
    found = families(Exposition("0.32.0", epoch=1000.0).text(server))

    assert found["vllm:generation_tokens_created"].samples[0].value == 1000.0
    assert "vllm:num_requests_running_created" not in found
    assert not [
        name for name in families(Exposition("0.9.2", flavour=Flavour.V0).text(busy(1))) if "_created" in name
    ]


def test_finish_reasons_are_those_of_the_release(server):
    def reasons(release):
        found = families(Exposition(release).text(server))["vllm:request_success"].samples
        return {sample.labels["finished_reason"] for sample in found}

    assert reasons("0.12.0") == {"stop", "length", "abort"}
    assert reasons("0.13.0") - reasons("0.12.0") == {"error"}
    assert reasons("0.17.0") - reasons("0.16.0") == {"repetition"}


def test_http_answers_are_counted_by_status_class(server):
    found = families(Exposition("0.32.0").text(server))["http_requests"].samples

    assert {sample.labels["status"]: sample.value for sample in found}["4xx"] == 1.0


def test_a_server_that_loads_has_no_engine_s_numbers_yet():
    text = Exposition("0.32.0").text(deployment(load_s=60.0))

    assert "vllm:num_requests_running{" not in text


def test_a_sleeping_engine_says_so():
    one = deployment()
    one.become(State.SLEEPING)
    states = families(Exposition("0.32.0").text(one))["vllm:engine_sleep_state"].samples

    assert {sample.labels["sleep_state"]: sample.value for sample in states} == {
        "awake": 0.0,
        "weights_offloaded": 1.0,
        "discard_all": 0.0,
    }


def test_v0_has_no_ranks(server):
    with pytest.raises(ValueError, match="V0 has no data-parallel ranks"):
        Exposition("0.9.2", flavour=Flavour.V0).text(server)


def test_a_release_that_does_not_exist_or_has_no_such_engine_is_refused():
    with pytest.raises(ValueError, match=r"no known release of vLLM: 1\.0"):
        Exposition("1.0")
    with pytest.raises(ValueError, match=r"vLLM 0\.11\.1 has no engine v0"):
        Exposition("0.11.1", flavour=Flavour.V0)


def test_bounds_of_all_releases_include_those_of_each():
    for release, flavour in BOTH:
        for row in page(release, flavour):
            if row.family.startswith("vllm:iteration"):
                assert set(row.bounds(64)) <= set(bounds_ever("vllm:iteration_tokens_total", 64))


def several(release, server, **values):
    """A page of a server with two API processes."""
    return families(Exposition(release, api_servers=2, **values).text(server))


@pytest.mark.parametrize(
    ("family", "before", "after"),
    [
        ("vllm:num_requests_running", "0.9.0.1", "0.9.1"),
        ("vllm:num_requests_waiting", "0.9.0.1", "0.9.1"),
        ("vllm:gpu_cache_usage_perc", "0.9.0.1", "0.9.1"),
        ("vllm:kv_cache_usage_perc", "0.11.0.post2", "0.11.1"),
    ],
)
def test_with_several_api_processes_some_gauges_had_a_child_for_each_of_them(server, family, before, after):
    """The releases are those whose gauges said nothing of how to merge processes."""
    old, new = several(before, server)[family].samples, several(after, server)[family].samples
    alone = families(Exposition(before).text(server))[family].samples

    assert len(old) == 2 * len(alone) == 2 * len(new)
    assert all(sample.labels["pid"] for sample in old)
    assert sum(sample.value for sample in old) == sum(sample.value for sample in alone)
    assert all("pid" not in sample.labels for sample in (*new, *alone))


def test_several_api_processes_have_no_created_series(server):
    real = families(
        (DATA / "captures" / "vllm-0.32.0" / "api-server-count-2.prom").read_text(encoding="utf-8")
    )
    made = several("0.32.0", server)

    assert not [name for name in (*real, *made) if name.endswith("_created")]
    assert not [name for name, family in made.items() for one in family.samples if "pid" in one.labels]


@pytest.mark.parametrize(("release", "flavour"), BOTH)
def test_lora_is_told_of_where_it_is_on(release, flavour):
    one = deployment(max_loras=2, max_num_seqs=1)
    for name, adapter in (("a", "red"), ("b", "blue"), ("c", None)):
        one.submit(arrival(name, output=1, adapter=adapter))
    one.advance(1.5)
    found = families(Exposition(release, flavour=flavour, epoch=1000.0).text(one)).get(
        "vllm:lora_requests_info"
    )

    told = [row for row in FACTS["rows"] if row["family"] == "vllm:lora_requests_info"]
    has = any(
        AGE[row["first"]] <= AGE[release] <= AGE[row["last"]] and row["engine"] == flavour.value
        for row in told
    )
    assert (found is not None) == has
    if found is not None:
        seen = {
            (sample.labels["running_lora_adapters"], sample.labels["waiting_lora_adapters"]): sample.value
            for sample in found.samples
        }
        # After the first step the red one had ended, and the blue one had not begun.
        assert seen == {("", ""): 1000.0, ("", "blue"): 1001.0}
        assert {sample.labels["max_lora"] for sample in found.samples} == {"2"}


@pytest.mark.parametrize(("release", "flavour"), BOTH)
def test_prometheus_itself_reads_a_page(of_flavour, release, flavour, promtool):
    """promtool ends with 1 where it cannot parse, and with 3 where it does not like vLLM's names."""
    page = Exposition(release, flavour=flavour).text(of_flavour[flavour])
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )

    assert checked.returncode in {0, 3}, checked.stderr
