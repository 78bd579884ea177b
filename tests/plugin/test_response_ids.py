from __future__ import annotations

from types import SimpleNamespace

from vllm_observe.plugin import response_ids
from vllm_observe.plugin.response_ids import ResponseIds


def noted(vllms_id):
    return {"request_metadata": SimpleNamespace(request_id=vllms_id)}


def test_an_id_is_found_while_the_request_is_handled_and_after_it():
    ids = ResponseIds()
    state = {}
    ids.begin(state, "a")
    assert ids.client_id("resp_1") is None
    state.update(noted("resp_1"))
    assert ids.client_id("resp_1") == "a"
    assert ids.client_id("resp_1_0") == "a"
    ids.end(state)
    assert ids.client_id("resp_1_12") == "a"
    assert ids.client_id("resp_2_0") is None


def test_a_request_that_never_reached_an_engine_is_forgotten():
    ids = ResponseIds()
    state = {}
    ids.begin(state, "a")
    ids.end(state)
    state.update(noted("resp_1"))
    assert ids.client_id("resp_1") is None


def test_the_memory_for_ids_is_bounded(monkeypatch):
    monkeypatch.setattr(response_ids, "MOST", 3)
    ids = ResponseIds()
    for number in range(5):
        ids.begin(noted(f"resp_{number}"), f"client-{number}")
        assert ids.client_id(f"resp_{number}") == f"client-{number}"
    assert [ids.client_id(f"resp_{number}") for number in range(5)] == [
        None,
        None,
        "client-2",
        "client-3",
        "client-4",
    ]


def test_what_vllm_notes_in_another_form_is_no_id():
    ids = ResponseIds()
    ids.begin({"request_metadata": 7}, "a")
    ids.begin(noted(None), "b")
    assert ids.client_id("resp_1") is None
