"""``requests``, ``sessions`` and ``explain`` as a person and a script meet them, on a real store."""

from __future__ import annotations

import contextlib
import json

import pytest

from http_double import http_double, whole
from support.joins import arrival, engine
from support.programs import free_port
from support.stores import NOW, engine_only, open_store, put, replaced, request
from vllm_observe.cli.words import UNKNOWN
from vllm_observe.clock import ManualClock
from vllm_observe.model import Cause, Outcome, Phases
from vllm_observe.serve.api.routes import api_routes
from vllm_observe.serve.app import admin_app
from vllm_observe.serve.auth import Credentials
from vllm_observe.serve.listener import Listener
from vllm_observe.store.sqlite_reader import SqliteReader

#: What a log could try on a terminal: clear the screen, and turn the writing round.
HOSTILE = "\x1b[2J\u202eabc"


@pytest.fixture
def path(tmp_path):
    opened = open_store(tmp_path / "requests.db")
    slow = request("slow-1", cause=Cause.QUEUE_SLOTS, session_id="user-4", profile="coder", status=200)
    put(
        opened,
        slow,
        request(
            "gone", outcome=Outcome.ABORT, cause=Cause.CLIENT_DISCONNECTED, session_id="user-4", start=5.0
        ),
        request("fine", session_id="user-5", start=9.0),
        request(HOSTILE, session_id=HOSTILE, start=11.0),
        engine_only("chatcmpl-lonely", start=12.0),
    )
    yield tmp_path / "requests.db"
    opened.close()


@pytest.fixture
def sidecar(path):
    """The address of an admin API on the store."""
    store = open_store(path.with_name("served.db"))
    put(store, request("served", session_id="s"))
    with listening(store) as url:
        yield url
    store.close()


@contextlib.contextmanager
def listening(store):
    app = admin_app(
        state=dict, auth=Credentials(), extra_routes=api_routes(lambda: store, ManualClock(wall=NOW))
    )
    listener = Listener(app, "127.0.0.1:0", flag="--admin-listen")
    listener.start()
    yield listener.url
    listener.close(5.0)


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


@pytest.mark.parametrize("command", ["requests", "sessions"])
def test_ids_are_whole_on_one_line_where_a_pipe_reads_them(run, tmp_path, monkeypatch, command):
    monkeypatch.delenv("COLUMNS", raising=False)
    uuid = "3f0c9a52-7d1e-4b8a-9c55-0a1b2c3d4e5f"
    opened = open_store(tmp_path / "ids.db")
    put(opened, request(f"0_chatcmpl-{uuid}-9be01f77", session_id=uuid, profile="coder"))
    opened.close()
    (line,) = (
        line
        for line in run(command, "--store", tmp_path / "ids.db").out.splitlines()
        if "…" in line or uuid in line
    )
    assert f"0_chatcmpl-{uuid}-9be01f77" in line.split()
    assert uuid in line.split()


@pytest.mark.usefixtures("wide")
def test_requests_lists_the_newest_first_with_their_causes(run, path):
    ran = run("requests", "--store", path)
    lines = ran.out.splitlines()
    assert ran.code == 0
    assert lines[0].split() == ["ended", "request", "session", "profile", "took", "first", "token", "tokens",
                                "ended", "as", "cause"]  # fmt: skip
    order = [name for line in lines for name in ("lonely", "fine", "gone", "slow-1") if name in line]
    assert order == ["lonely", "fine", "gone", "slow-1"]
    (slow,) = (line for line in lines if "slow-1" in line)
    assert "user-4" in slow
    assert "coder" in slow
    assert "4 s" in slow
    assert slow.endswith("queue_slots")


def test_a_narrow_terminal_still_shows_a_whole_id(run, path):
    ran = run("requests", "--store", path, "--cause", "queue_slots")
    assert "slow-1" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


@pytest.mark.parametrize("asked", [("requests", "slow-1"), ("sessions", "user-4")])
@pytest.mark.parametrize("columns", ["36", "40", "60"])
def test_a_very_narrow_terminal_shows_whole_words_of_fewer_columns(run, path, monkeypatch, columns, asked):
    monkeypatch.setenv("COLUMNS", columns)
    command, name = asked
    lines = run(command, "--store", path).out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    (line,) = (line for line in lines if name in line.split())
    assert "4" in line.split()  # it took 4 s
    assert "a wider terminal also shows:" in " ".join(lines)


@pytest.mark.parametrize("command", [["requests"], ["sessions"], ["explain", HOSTILE]])
def test_no_name_of_a_stranger_moves_the_cursor(run, path, command):
    ran = run(*command, "--store", path)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out


def test_pages_are_followed_by_their_cursor(run, path):
    first = json.loads(run("requests", "--store", path, "--limit", "3", "--json").out)
    second = json.loads(
        run("requests", "--store", path, "--limit", "3", "--json", "--cursor", first["next_cursor"]).out
    )
    ids = [one["request_id"] for page in (first, second) for one in page["requests"]]
    assert ids == ["chatcmpl-lonely", HOSTILE, "fine", "gone", "slow-1"]
    assert first["next_cursor"] in run("requests", "--store", path, "--limit", "3").out


@pytest.mark.usefixtures("wide")
def test_sessions_adds_up(run, path):
    ran = run("sessions", "--store", path, "--session", "user-4")
    (line,) = (line for line in ran.out.splitlines() if "user-4" in line)
    assert "2, 1 not ok" in line
    assert "1 queue_slots" in line
    assert "1 client_disconnected" in line


def test_explain_names_the_cause_and_where_the_time_went(run, path):
    ran = run("explain", "--store", path, "slow-1")
    assert ran.code == 0
    assert "queue_slots: 8 of 8 slots were taken" in ran.out
    assert "session user-4, profile coder" in ran.out
    rows = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    # 3 s outside, 0.25 s each of queue and prefill, 0.5 s of decode: of 4 s
    assert "75 %" in rows["outside"]
    assert "6.2 %" in rows["queue"] or "6.3 %" in rows["queue"]
    assert "12.5 %" in rows["decode"]
    bars = [line.index("█") for line in ran.out.splitlines() if "█" in line]
    assert bars == sorted(bars), "phases stand one behind the other"
    assert "8 running, 3 waiting" in ran.out


def test_explain_finds_a_request_by_vllms_id(run, path):
    assert "slow-1" in run("explain", "--store", path, "chatcmpl-slow-1").out


def test_explain_shows_every_attempt(run, path):
    again = request("slow-1", start=30.0)
    store = open_store(path.with_name("retried.db"))
    put(store, request("slow-1"), replaced(again, attempt=2))
    ran = run("explain", "--store", path.with_name("retried.db"), "slow-1")
    store.close()
    assert "attempt 1" in ran.out
    assert "attempt 2" in ran.out


@pytest.fixture
def explain(run, tmp_path):
    """What explain says of the attempts of the request ``a``."""

    def explain(*attempts):
        store = open_store(tmp_path / "explained.db")
        put(store, *attempts)
        store.close()
        return run("explain", "a", "--store", tmp_path / "explained.db").out

    return explain


def with_engines(*parts, **values):
    return replaced(request("a", engine_part=False, **values), engines=parts)


def test_explain_says_of_an_arrival_that_the_engine_told_no_end(explain):
    told = explain(with_engines(arrival("chatcmpl-a")))
    assert "chatcmpl-a: arrived at" in told
    assert "of its end the engine told nothing" in " ".join(told.split())


@pytest.mark.parametrize(
    "end",
    [
        engine("chatcmpl-a-9be01f77"),
        engine("chatcmpl-a", took=None, finish_reason="abort", start=4.0),  # a line of vLLM's own log
        engine("chatcmpl-a", finish_reason=None),  # timed, and its reason not told
    ],
)
def test_explain_never_says_that_an_end_is_not_told_beside_the_end(explain, end):
    told = explain(with_engines(arrival("chatcmpl-a"), end))
    assert "told nothing" not in told
    assert told.count("arrived at") == 1


def test_explain_of_what_only_the_request_log_told_does_not_list_what_is_unknown(explain):
    told = explain(with_engines(took=2.5))
    assert "where its 2.5 s went is not known" not in told  # the parts of this one are known
    told = explain(replaced(with_engines(took=2.5, start=9.0), phases=Phases(), attempt=2, uid="2"))
    assert "where its 2.5 s went is not known" in told
    assert UNKNOWN not in told.split("attempt 2")[1]


def test_explain_calls_no_failure_well_and_no_unknown_duration_fast(explain):
    told = explain(
        with_engines(outcome=Outcome.ERROR),
        replaced(with_engines(took=None, start=50.0), attempt=2, uid="2"),
    )
    assert "neither slow nor failed" not in told
    assert "error: no cause is known" in told
    assert "how long it took is not known" in told


def test_explain_heads_each_attempt_with_how_it_ended(explain):
    told = explain(
        with_engines(outcome=Outcome.REJECTED, status=429),
        replaced(with_engines(status=200, start=9.0), attempt=2, uid="2"),
    )
    assert "attempt 1: rejected, HTTP 429" in told
    assert "attempt 2: ok, HTTP 200" in told


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_explain_keeps_each_phase_on_a_line_however_narrow_the_terminal(run, path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("explain", "--store", path, "slow-1").out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    phases = [line.split()[0] for line in lines if "█" in line]
    assert phases == ["outside", "queue", "prefill", "decode"]


def test_explain_names_the_zone_of_its_times(explain):
    assert "2026-09-21 14:13:24 UTC, ok" in explain(request("a"))


def test_a_complaint_of_another_release_is_repeated_as_it_is(run):
    problem = b'{"error":{"code":"bad_request","message":"no parameter is named \'client\'"}}'
    with http_double() as server:
        server.answers["/api/v1/requests?limit=20"] = whole(problem, status=400)
        ran = run("requests", "--sidecar", server.url)
    assert ran.code == 2
    assert "no parameter is named 'client'" in ran.err
    assert "--no" not in ran.err


def test_an_unknown_id_is_a_problem_in_one_line(run, path):
    ran = run("explain", "--store", path, "nobody")
    assert (ran.code, ran.out) == (1, "")
    assert "nobody is not known" in ran.err
    assert ran.err.count("\n") == 1


# The first took 4 s.
@pytest.mark.parametrize(
    ("slower_than", "found"), [("3999ms", True), ("3.9", True), ("4s", False), ("1m", False)]
)
def test_slower_than_takes_a_duration_with_its_unit(run, path, slower_than, found):
    ran = run("requests", "--store", path, "--cause", "queue_slots", "--slower-than", slower_than)
    assert ran.code == 0
    assert ("slow-1" in ran.out) is found


def test_nothing_found_says_so(run, path):
    told = "none found; what is older than store_max_age is not kept\n"
    assert run("requests", "--store", path, "--profile", "poet").out == told
    assert run("sessions", "--store", path, "--session", "poet").out == told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--outcome", "okay"], "--outcome must be one of ok"),
        (["--since", "yesterday"], "--since must be"),
        (["--slower-than", "fast"], "--slower-than must be"),
        (["--cursor", "zzz"], "--cursor: no page gave this one"),
        (["--limit", "1001"], "--limit must be"),
        (["--sidecar", "http://127.0.0.1:9810"], "--sidecar asks a sidecar and --store a file"),
    ],
)
def test_wrong_use_is_exit_code_2_and_names_the_flag(run, path, arguments, words):
    ran = run("requests", "--store", path, *arguments)
    assert ran.code == 2
    assert words in ran.err


@pytest.mark.parametrize("command", ["requests", "sessions"])
def test_wrong_use_is_told_though_no_sidecar_is_there(run, command):
    ran = run(command, "--sidecar", f"http://127.0.0.1:{free_port()}", "--since", "yesterday")
    assert ran.code == 2
    assert "--since must be" in ran.err


def test_a_missing_store_is_told(run, tmp_path):
    ran = run("requests", "--store", tmp_path / "none.db")
    assert ran.code == 2
    assert "none.db" in ran.err


# --- A sidecar ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["requests"], ["sessions"], ["explain", "served"]])
def test_a_sidecar_and_its_store_give_the_same_document(run, sidecar, path, command):
    asked = run(*command, "--json", "--sidecar", sidecar)
    read = run(*command, "--json", "--store", path.with_name("served.db"))
    assert asked.code == 0
    assert json.loads(asked.out) == json.loads(read.out)


def test_a_sidecars_refusal_names_the_flag(run, sidecar):
    ran = run("requests", "--sidecar", sidecar, "--outcome", "okay")
    assert ran.code == 2
    assert "--outcome must be one of" in ran.err


#: Ids as clients may send them: what a path, a query or a quoting could make something else of.
ODD_IDS = (
    *(".", "..", "...", ".a.", "a/../b", "../x", "./x", "/", "//a//", "a/", "a?b", "?", "#", "a#b", "a%2fb"),
    *("%2E%2E", "%", "+", "a b", "a\nb", "a;b&c=d", "\u00e4\u65e5", "~", "\\"),
)


def test_an_id_of_any_kind_is_asked_of_a_sidecar(run, tmp_path):
    store = open_store(tmp_path / "odd.db")
    put(store, *(request(name) for name in ODD_IDS))
    with listening(store) as url:
        for name in ODD_IDS:
            ran = run("explain", "--json", "--sidecar", url, "--", name)
            assert (ran.code, json.loads(ran.out or "{}").get("request_id")) == (0, name), name
    store.close()


def test_no_dot_of_an_id_is_left_to_be_resolved_on_the_way(run):
    with http_double() as server:
        run("explain", "--sidecar", f"{server.url}/sidecar", "--", "../a.b")
        assert server.asked[0].path == "/sidecar/api/v1/requests/%2E%2E%2Fa%2Eb"


@pytest.mark.parametrize("name", ["", "\udc80", "..", "served/.."])
def test_an_odd_id_that_is_not_there_is_not_known_to_a_sidecar(run, sidecar, name):
    ran = run("explain", "--sidecar", sidecar, "--", name)
    assert ran.code == 1
    assert "is not known" in ran.err


@pytest.mark.parametrize("way", ["store", "sidecar"])
def test_a_damaged_store_is_told_in_a_line(run, tmp_path, way):
    file = tmp_path / "hurt.db"
    store = open_store(file)
    put(store, *(request(str(number)) for number in range(200)))
    store.close()
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with listening(SqliteReader(file)) as url:
        ran = run("requests", "--store", file) if way == "store" else run("requests", "--sidecar", url)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "hurt.db is no store, or is damaged: a sidecar that writes to it sets it aside" in ran.err
    assert "malformed" not in ran.err


def test_an_id_that_a_sidecar_does_not_know(run, sidecar):
    ran = run("explain", "--sidecar", sidecar, "a/../b?c")
    assert ran.code == 1
    assert "is not known" in ran.err


@pytest.mark.parametrize(
    "answer",
    [
        whole(b"<html>"),
        whole(b"[]"),
        whole(b"gone", status=404),
        whole(b"", status=302, location="http://elsewhere.example/"),
        whole(b"oops", status=500),
    ],
)
def test_what_is_no_sidecar_is_told(run, answer):
    with http_double() as server:
        server.answers["/api/v1/requests?limit=20"] = answer
        ran = run("requests", "--sidecar", server.url)
    assert ran.code == 1
    assert "no sidecar's admin API" in ran.err


def test_no_sidecar_at_all_is_told(run):
    ran = run("explain", "x", "--sidecar", f"http://127.0.0.1:{free_port()}")
    assert ran.code == 1
    assert "is the sidecar up" in ran.err
    assert "--store" in ran.err


def test_a_token_is_sent_and_never_shown(run, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret-1\n")
    with http_double() as server:
        server.answers["/api/v1/requests?limit=20"] = whole(b"{}", status=401)
        ran = run("requests", "--sidecar", server.url, "--token-file", token)
        assert server.asked[0].headers["authorization"] == "Bearer secret-1"
    assert ran.code == 1
    assert "--token-file" in ran.err
    assert "secret-1" not in ran.err
