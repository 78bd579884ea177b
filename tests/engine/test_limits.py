from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from vllm_observe.clock import ManualClock
from vllm_observe.engine.limits import LimitsBook, LimitsReader, kv_capacity
from vllm_observe.model import Limits, LimitsSource

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
PLUGIN, SERVER_INFO, COMMAND_LINE, ENGINE_LOG, SETTING, UNKNOWN = LimitsSource


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def book(clock):
    return LimitsBook(clock=clock)


def slots(book, engine="0"):
    limits = book.limits_for(engine)
    return limits.max_num_seqs, limits.source


# --- Whom to believe ----------------------------------------------------------------------------


def test_what_nobody_said_is_unknown(book):
    assert book.limits_for("0") == Limits(engine="0", source=UNKNOWN)


def test_the_best_source_is_believed_whoever_spoke_last(book):
    order = [SETTING, ENGINE_LOG, COMMAND_LINE, SERVER_INFO, PLUGIN]
    for number, source in enumerate(order, start=1):
        book.tell(Limits(source=source, max_num_seqs=number))
        assert slots(book) == (number, source)
    for number, source in enumerate(order, start=1):
        book.tell(Limits(source=source, max_num_seqs=10 * number))
    assert slots(book) == (50, PLUGIN)


def test_each_limit_comes_from_the_best_source_that_names_it(book):
    book.tell(Limits(source=SERVER_INFO, vllm_version="0.32.0", max_model_len=4096))
    book.tell(Limits(source=COMMAND_LINE, max_num_seqs=8, max_model_len=2048))
    book.tell(Limits(source=SETTING, max_num_seqs=64, max_num_batched_tokens=512))
    assert book.limits_for("0") == Limits(
        engine="0",
        source=COMMAND_LINE,
        max_num_seqs=8,
        max_num_batched_tokens=512,
        max_model_len=4096,
        vllm_version="0.32.0",
    )


def test_the_source_is_that_of_the_slots(book):
    book.tell(Limits(source=SERVER_INFO, max_num_active_seqs=4))
    assert book.limits_for("0").source is SERVER_INFO
    book.tell(Limits(source=SETTING, max_num_seqs=8))
    assert (book.limits_for("0").source, book.limits_for("0").slots) == (SETTING, 4)


def test_an_engine_of_its_own_comes_before_all_engines(book):
    book.tell(Limits(source=PLUGIN, max_num_seqs=8))
    book.tell(Limits(source=PLUGIN, engine="1", max_num_seqs=16))
    assert [slots(book, engine)[0] for engine in "012"] == [8, 16, 8]
    assert book.limits_for("1").engine == "1"


def test_a_new_statement_takes_the_place_of_the_last_as_a_whole(book):
    book.tell(Limits(source=ENGINE_LOG, max_num_seqs=8))
    book.tell(Limits(source=ENGINE_LOG, max_model_len=2048))
    assert slots(book) == (None, UNKNOWN)


@pytest.mark.parametrize("value", [0, -1, True, "8", 8.0, 10**9])
def test_a_number_that_cannot_be_believed_is_not_said(book, value):
    book.tell(Limits(source=SETTING, max_num_seqs=64))
    book.tell(Limits(source=PLUGIN, max_num_seqs=value, vllm_version='0.32"\n'))
    assert slots(book) == (64, SETTING)
    assert book.limits_for("0").vllm_version is None


def test_a_flood_of_engines_is_bounded_and_drives_nobody_out(book):
    book.tell(Limits(source=SETTING, max_num_seqs=64))
    for engine in range(10_000):
        book.tell(Limits(source=PLUGIN, engine=str(engine), max_num_seqs=8))
    book.tell(Limits(source=PLUGIN, engine="0", max_num_seqs=9))
    assert slots(book, "0") == (9, PLUGIN)
    assert slots(book, "9999") == (64, SETTING)
    assert len(book._told) < 10_000


# --- A new vLLM ---------------------------------------------------------------------------------


def test_a_new_vllm_is_not_measured_by_the_limits_of_the_old(book, clock):
    for number, source in enumerate((PLUGIN, SERVER_INFO, COMMAND_LINE, ENGINE_LOG, SETTING), start=1):
        book.tell(Limits(source=source, max_num_seqs=number, vllm_version="0.32.0"))
    clock.advance(60)
    book.forget(last_seen=clock.wall())
    assert slots(book) == (5, SETTING)


@pytest.mark.parametrize("source", [PLUGIN, ENGINE_LOG])
def test_what_a_new_vllm_said_at_its_start_outlives_the_news_of_it(book, clock, source):
    last_seen = clock.wall()
    clock.advance(40)
    book.tell(Limits(source=source, max_num_seqs=16))
    clock.advance(20)
    book.forget(last_seen=last_seen)
    assert slots(book) == (16, source)


@pytest.mark.parametrize("source", [SERVER_INFO, COMMAND_LINE])
def test_what_the_old_vllm_was_asked_is_forgotten_however_late_it_was(book, clock, source):
    last_seen = clock.wall()
    clock.advance(0.1)
    book.tell(Limits(source=source, max_num_seqs=16))
    book.forget(last_seen=last_seen)
    assert slots(book) == (None, UNKNOWN)


# --- When to ask --------------------------------------------------------------------------------


class Server:
    """A vLLM in development mode, and its process."""

    def __init__(self, book, clock):
        self.slots = 8
        self.version = "0.32.0"
        self.process = None
        self.asked = []
        self.meanwhile = lambda: None
        self.reader = LimitsReader(
            book=book, get_json=self.get_json, command_line=lambda: self.process, clock=clock
        )

    def get_json(self, path):
        self.asked.append(path)
        self.meanwhile()
        if path == "/version":
            return self.version and {"version": self.version}
        assert path == "/server_info?config_format=json"
        return self.slots and {"vllm_config": {"scheduler_config": {"max_num_seqs": self.slots}}}


@pytest.fixture
def server(book, clock):
    return Server(book, clock)


def test_the_first_refresh_asks_every_source(book, server):
    server.process = Limits(source=COMMAND_LINE, max_num_seqs=16, max_model_len=2048)
    server.reader.refresh()
    assert book.limits_for("0") == Limits(
        engine="0", source=SERVER_INFO, max_num_seqs=8, max_model_len=2048, vllm_version="0.32.0"
    )


def test_the_command_line_counts_where_the_server_tells_nothing(book, server):
    server.slots, server.process = None, Limits(source=COMMAND_LINE, max_num_seqs=16)
    server.reader.refresh()
    assert slots(book) == (16, COMMAND_LINE)
    assert book.limits_for("0").vllm_version == "0.32.0"


def test_the_sources_are_asked_rarely_and_ever_more_so(server, clock):
    looks = []
    for second in range(0, 3600, 5):
        before = len(server.asked)
        server.reader.refresh()
        if len(server.asked) > before:
            looks.append(second)
        clock.advance(5)
    assert looks[:6] == [0, 15, 45, 105, 225, 465]
    assert looks[6:] == list(range(765, 3600, 300))


def test_no_answer_says_nothing_against_the_last_one(book, server, clock):
    server.process = Limits(source=COMMAND_LINE, max_num_seqs=16)
    server.reader.refresh()
    server.slots = server.version = server.process = None
    clock.advance(300)
    server.reader.refresh()
    assert slots(book) == (8, SERVER_INFO)
    assert book.limits_for("0").vllm_version == "0.32.0"


def test_a_new_vllm_is_asked_at_once(book, server, clock):
    server.reader.refresh()
    clock.advance(1)
    server.slots, server.version = None, "0.33.0"
    server.reader.restarted(last_seen=clock.wall())
    assert slots(book) == (None, UNKNOWN)
    server.reader.refresh()
    assert slots(book) == (None, UNKNOWN)
    assert book.limits_for("0").vllm_version == "0.33.0"


def test_an_answer_that_a_restart_overtakes_is_not_believed(book, server, clock):
    server.meanwhile = lambda: server.reader.restarted(last_seen=clock.wall())
    server.reader.refresh()
    assert slots(book) == (None, UNKNOWN)
    server.meanwhile = lambda: None
    server.slots = 32
    server.reader.refresh()
    assert slots(book) == (32, SERVER_INFO)


# --- The KV cache -------------------------------------------------------------------------------


def cache_labels(capture):
    return [
        sample.labels
        for family in text_string_to_metric_families((CAPTURES / capture).read_text())
        if family.name == "vllm:cache_config_info"
        for sample in family.samples
    ]


@pytest.mark.parametrize(
    ("capture", "tokens"),
    [
        ("vllm-0.32.0/idle.prom", 20 * 128),
        ("vllm-0.32.0/saturated.prom", 48 * 128),
        ("vllm-0.9.2-v1/idle.prom", 16384 * 128),
        ("vllm-0.9.2-v0/idle.prom", 16384 * 128),
        ("vllm-0.16.0-engine-dead/metrics.prom", 16384 * 128),
    ],
)
def test_the_capacity_of_real_servers(capture, tokens):
    [labels] = cache_labels(capture)
    assert kv_capacity(labels) == tokens


def test_each_rank_has_a_capacity_of_its_own():
    ranks = cache_labels("vllm-0.32.0/data-parallel-2.prom")
    assert [rank["num_gpu_blocks"] for rank in ranks] == ["32768", "32768"]  # of both together
    assert [kv_capacity(rank, engines=2) for rank in ranks] == [16384 * 128] * 2
    older = [
        {name: value for name, value in rank.items() if name != "kv_cache_size_tokens"} for rank in ranks
    ]
    assert [kv_capacity(rank, engines=2) for rank in older] == [None, None]


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"num_gpu_blocks": "None", "block_size": "16"},
        {"num_gpu_blocks": "100", "block_size": "None"},
        {"num_gpu_blocks": "0", "block_size": "16"},
        {"num_gpu_blocks": "-1", "block_size": "16"},
        {"num_gpu_blocks": "1e9", "block_size": "16"},
        {"num_gpu_blocks": "9" * 5000, "block_size": "16"},
        {"num_gpu_blocks": "100", "block_size": "16", "mamba_block_size": "528"},
        {"kv_cache_size_tokens": "None", "num_gpu_blocks": "None", "block_size": "16"},
    ],
)
def test_a_capacity_that_the_labels_do_not_tell_is_unknown(labels):
    assert kv_capacity(labels) is None


def test_what_vllm_says_itself_comes_before_the_product():
    labels = {"kv_cache_size_tokens": "1000", "num_gpu_blocks": "100", "block_size": "16"}
    assert kv_capacity(labels) == 1000
