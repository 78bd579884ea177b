"""The demo's view and its lines, of pictures that are made up; the numbers in them are counted by hand."""

from __future__ import annotations

import io
import shlex
from types import SimpleNamespace

import msgspec
import pytest
from rich.console import Console

from support.looks import seen
from vllm_observe.cli.demo_lines import DemoLines
from vllm_observe.cli.demo_picture import Hit, Picture
from vllm_observe.cli.demo_view import DemoView
from vllm_observe.clock import ManualClock
from vllm_observe.demo.alerting import Firing, Programs
from vllm_observe.demo.run import Demo, OwnVllm
from vllm_observe.demo.story import DEFAULT, Story, told
from vllm_observe.model import Cause, Outcome, Parts, Phases
from vllm_observe.serve.api.answers import RequestObject, Tokens
from vllm_observe.serve.state import RequestsState, State
from vllm_observe.serve.verdict import Level, Verdict, verdict

SATURATED = "vllm-0.32.0/saturated.prom"  # 8 of 8 slots, 16 waiting


def request(number: int, **told) -> RequestObject:
    values = {
        "request_id": f"r-{number}",
        "session_id": f"s-{number}",
        "profile": "assistant",
        "client": "web",
        "model": "tiny",
        "engine": "0",
        "attempt": 1,
        "started_at": None,
        "ended_at": 0.0,
        "duration_s": 10.0,
        "ttft_s": None,
        "phases": Phases(queue=6.0, prefill=1.0, decode=3.0),
        "tokens": Tokens(prompt=None, cached=None, completion=None),
        "status": 200,
        "outcome": Outcome.OK,
        "finish_reason": None,
        "cause": Cause.QUEUE_SLOTS,
        "evidence": "waited 6.0 s of 10.0 s; 8 of 8 slots were taken",
        "parts": Parts.BOTH,
    }
    return RequestObject(**values | told)


SLOW = (
    request(1, session_id="often"),
    request(2, session_id="often", duration_s=4.0),
    request(3, client="\x1b[2J" + "x" * 300, duration_s=30.0),
    request(4, cause=Cause.CLIENT_DISCONNECTED),
)


def saturated(**slow: int) -> State:
    return msgspec.structs.replace(seen(SATURATED), requests=RequestsState(slow=slow))


def picture(**changes) -> Picture:
    state = saturated(queue_slots=12, client_disconnected=3, unknown=0)
    values = {"now": 30.0, "state": state, "judged": verdict(state), "slow": SLOW, "lately": SLOW}
    return Picture(**values | changes)


@pytest.fixture
def demo() -> Demo:
    demo = Demo(Story(told(DEFAULT)), found=Programs(None, None), clock=ManualClock(), ended=lambda _: False)
    demo.metrics, demo.admin = "http://127.0.0.1:9809", "http://127.0.0.1:9810"
    return demo


def drawn(demo, shown, *, width=80, height=24, over=False, program="vllm-observe") -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, color_system=None)
    console.print(DemoView(demo, shown, program=program, over=over))
    return out.getvalue().splitlines()


NOTHING = Picture(now=0.0, state=None, judged=Verdict(Level.PROBLEM, "no connection"))


@pytest.mark.parametrize(
    ("width", "height", "lines"), [(80, 24, 23), (120, 40, 28), (80, 30, 28), (60, 10, 9), (80, 23, 9)]
)
def test_the_view_is_always_as_high_and_never_wider_than_the_terminal(demo, width, height, lines):
    many = tuple(request(number, evidence="x" * 500) for number in range(50))
    firing = tuple(Firing(f"VLLMSomethingIsVeryWrong{number}", "warning", "s") for number in range(9))
    for shown in (NOTHING, picture(), picture(slow=many, firing=firing), picture(slow=())):
        for over in (False, True):
            view = drawn(demo, shown, width=width, height=height, over=over)
            assert len(view) == lines
            assert max(map(len, view)) <= width


def test_it_shows_the_engine_against_its_limits(demo):
    view = "\n".join(drawn(demo, picture()))
    assert "saturated: 8 of 8 slots, 16 waiting" in view
    assert "█ 8 of 8\n" in view
    assert "█ 16\n" in view
    assert "batch job since 18 s, for another 27 s" in view


def test_it_shows_causes_and_sessions_and_who_has_the_engine(demo):
    view = "\n".join(
        drawn(demo, picture(lately=(request(1), request(2), request(3, client="batch"))), width=120)
    )
    assert "queue_slots             12 ██" in view
    assert "client_disconnected      3 ██" in view
    assert "often                2, up to 10 s" in view
    assert "67 % web, 33 % batch (last 3 requests)" in view
    assert "why           3 requests waited while every slot was taken\n" in view
    assert "whose         2 of web, 1 of \\x1b[2J" in view
    assert "with prometheus and alertmanager on the PATH" in view


def of_sessions(*sessions: str | None, **values) -> tuple[RequestObject, ...]:
    return tuple(request(number, session_id=session, **values) for number, session in enumerate(sessions))


@pytest.mark.parametrize(
    ("sessions", "told"),
    [
        ("ever ever ever other", "4 of web; 3 of them of session ever"),
        ("ever ever other", "3 of web"),  # too few to say so
        ("ever ever other another", "4 of web"),  # half is not most
        ("ever ever ever other another", "5 of web; 3 of them of session ever"),
    ],
)
def test_a_session_that_most_of_the_requests_are_of_is_named(demo, sessions, told):
    shown = picture(slow=of_sessions(*sessions.split()))
    assert f"whose         {told}" in drawn(demo, shown)
    assert any(line.endswith(f": {told}") for line in lines_of(demo, shown))


def test_a_session_that_has_most_of_the_engines_time_is_named_first(demo):
    def time_of(*seconds: float) -> list[str]:
        lately = tuple(
            request(number, phases=Phases(prefill=0.5, decode=spent - 0.5), session_id=f"s\x1b-{number}")
            for number, spent in enumerate(seconds)
        )
        return [line for line in drawn(demo, picture(lately=lately)) if line.startswith("engine's time")]

    assert time_of(6, 1, 2, 1) == ["engine's time 60 % session s\\x1b-0; 100 % web (last 4 requests)"]
    assert time_of(5, 1, 3, 1) == ["engine's time 100 % web (last 4 requests)"]
    assert time_of(6, 3, 1) == ["engine's time 100 % web (last 3 requests)"]


def test_requests_of_no_session_are_of_no_session_together(demo):
    nobodys = of_sessions(None, None, None, None)
    assert "session " not in "\n".join(drawn(demo, picture(slow=nobodys, lately=nobodys)))


def test_a_first_token_that_nobody_has_got_is_not_told_in_figures(demo):
    idle = msgspec.structs.replace(saturated(), latency=())
    assert "first token   —" in drawn(demo, picture(state=idle))
    assert not any("first token" in line for line in lines_of(demo, picture(state=idle)))
    assert any("first token p50" in line for line in lines_of(demo, picture()))


def test_it_gives_the_command_that_explains_the_longest_whole(demo):
    assert "see           vllm-observe explain r-3" in drawn(demo, picture())
    demo.admin = "http://127.0.0.1:40001"
    long = picture(slow=(request(1, request_id="5f0c9a52-1b5e-4cf6-8f7e-0a3f5d1c2b4a"),))
    view = drawn(demo, long)
    first = next(number for number, line in enumerate(view) if line.startswith("see  "))
    assert view[first].endswith("explain 5f0c9a52-1b5e-4cf6-8f7e-0a3f5d1c2b4a \\")
    assert view[first + 1] == "  --sidecar http://127.0.0.1:40001"


@pytest.mark.parametrize("width", [60, 66, 70, 80, 100, 140])
@pytest.mark.parametrize("program", ["vllm-observe", "/srv/tools/.venv/bin/python -m vllm_observe"])
@pytest.mark.parametrize("request_id", ["r-1", "editor-user-12-3"])
def test_the_command_can_be_copied_on_a_narrow_terminal_too(demo, width, program, request_id):
    demo.admin = "http://127.0.0.1:40001"
    shown = picture(slow=(request(1, request_id=request_id),))
    text = "\n".join(drawn(demo, shown, width=width, height=20, program=program))
    copied = shlex.split(text[text.index(program) :].replace("\\\n", " ").splitlines()[0])
    assert copied == [*program.split(), "explain", request_id, "--sidecar", demo.admin]


def test_evidence_that_does_not_fit_is_cut_with_a_mark(demo):
    long = picture(slow=(request(1, evidence="waited " * 60),))
    (cut,) = [line for line in drawn(demo, long, over=True) if line.endswith("…")]
    assert cut.startswith("              waited")


def test_at_the_end_the_answer_stands_where_the_command_stood(demo):
    view = drawn(demo, picture(at_worst=Verdict(Level.BUSY, "saturated: all of it")), over=True)
    assert "for example   r-3 took 30 s: waited 6.0 s of 10.0 s; 8 of 8 slots were taken" in view
    assert "at its worst  saturated: all of it" in view
    assert view[-1] == "ended; --list names other scenarios"


def test_the_worst_alerts_are_named_first_and_the_others_counted(demo):
    firing = (
        Firing("VLLMWorst", "critical", ""),
        Firing("VLLMBad" + "d" * 40, "warning", ""),
        Firing("VLLMLess", "warning", ""),
    )
    view = drawn(demo, picture(firing=firing))
    assert "alerts        VLLMWorst and 2 more" in view
    assert any(
        "VLLMBad" in line and "VLLMLess" in line for line in drawn(demo, picture(firing=firing), width=120)
    )


def test_sessions_are_sorted_by_how_often_and_then_by_how_long():
    assert picture().worst_hit == [Hit("often", 2, 10.0), Hit("s-3", 1, 30.0), Hit("s-4", 1, 10.0)]


def test_every_cause_can_be_told(demo):
    for cause in Cause:
        shown = picture(slow=(request(1, cause=cause), request(2, cause=cause)))
        assert any(line.startswith("why           2 requests ") for line in drawn(demo, shown))


def lines_of(demo, *pictures: Picture) -> list[str]:
    said: list[str] = []
    lines = DemoLines(demo, program="vllm-observe", say=said.append)
    lines.begin()
    for shown in pictures:
        lines.show(shown)
    lines.end(pictures[-1])
    return said


def test_lines_tell_the_state_every_three_seconds_and_each_event_once(demo):
    alert = Firing("VLLMWorst", "critical", "it is bad")
    said = lines_of(
        demo,
        *(picture(now=now, slow=()) for now in (0.0, 1.0, 2.9)),
        picture(now=12.1, firing=(alert,)),
        picture(now=12.9, firing=(alert,), fired={"VLLMWorst": "critical"}),
        picture(now=15.0, fired={"VLLMWorst": "critical"}),
    )
    assert said[0].startswith(f"{DEFAULT}: A batch job takes every slot; metrics: http://")
    assert said[1] == (
        "admin: http://127.0.0.1:9810/api/v1/state; look from another terminal: "
        "vllm-observe status --sidecar http://127.0.0.1:9810"
    )
    events = [line.partition("; first")[0] for line in said[3:]]
    assert events == [
        "  0 s  saturated: 8 of 8 slots, 16 waiting",
        " 12 s  --- batch job begins: A batch job takes every slot.",
        " 12 s  ALERT VLLMWorst (critical): it is bad",
        " 12 s  saturated: 8 of 8 slots, 16 waiting",
        " 15 s  ALERT VLLMWorst fires no more",
        " 15 s  saturated: 8 of 8 slots, 16 waiting",
        "at its worst: the engine itself was well",
        events[7],
        "for example: r-3 took 30 s: waited 6.0 s of 10.0 s; 8 of 8 slots were taken",
        "alerts that fired: VLLMWorst (critical)",
    ]
    assert events[7].startswith(
        "why and whose: 3 requests waited while every slot was taken (queue_slots): 2 of web, 1 of "
    )


def test_all_was_well_is_said_where_nobody_was_slow(demo):
    assert "at its worst: all was well" in lines_of(demo, picture(slow=()))
    assert "at its worst  all was well" in drawn(demo, picture(slow=()), over=True)
    assert "at its worst  the engine itself was well" in drawn(demo, picture(), over=True)


def test_a_server_that_was_down_at_the_last_look_was_not_well(demo):
    down = Verdict(Level.PROBLEM, "down: nothing listens there")
    shown = picture(slow=(), state=None, judged=down)
    assert "at its worst: down: nothing listens there" in lines_of(demo, shown)
    assert "at its worst  down: nothing listens there" in drawn(demo, shown, over=True)
    lasted = picture(judged=down, at_worst=Verdict(Level.BUSY, "saturated: all of it"))
    assert "at its worst: saturated: all of it" in lines_of(demo, lasted)


def test_on_a_healthy_day_nothing_is_said_of_hurried_rules(demo, monkeypatch):
    healthy = Demo(
        Story(told("steady")), found=Programs("p", "a"), clock=ManualClock(), ended=lambda _: False
    )
    for one, hurried in ((demo, True), (healthy, False)):
        monkeypatch.setattr(one, "alerting", SimpleNamespace(prometheus="http://p", alertmanager="http://a"))
        assert any("20 times as quick" in line for line in drawn(one, picture(slow=()))) is hurried


def test_of_a_vllm_without_a_log_it_says_what_is_missing():
    own = Demo(
        OwnVllm("http://gpu:8000", ()), found=Programs(None, None), clock=ManualClock(), ended=lambda _: False
    )
    assert lines_of(own, picture(slow=()))[-1] == (
        "without a request log nobody can say whose requests were slow: give --request-log"
    )
    assert any("what your users do" in line for line in drawn(own, picture()))


def test_an_alert_that_a_worse_one_mutes_has_not_ended(demo):
    alert = Firing("VLLMBad", "warning", "it is bad")
    said = lines_of(
        demo,
        picture(now=12.1, firing=(alert,)),
        picture(now=12.2, firing=(Firing("VLLMWorst", "critical", "worse"), alert._replace(muted=True))),
        picture(now=12.3, firing=(alert,)),
        picture(now=12.4),
    )
    assert [line.partition("ALERT ")[2] for line in said if "ALERT" in line] == [
        "VLLMBad (warning): it is bad",
        "VLLMWorst (critical): worse",
        "VLLMWorst fires no more",
        "VLLMBad fires no more",
    ]
