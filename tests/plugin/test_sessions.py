from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from vllm_observe.plugin.fuse import Fuse
from vllm_observe.plugin.sessions import SESSION, note_sessions

MODULE = "vllm.entrypoints.generate.base.serving"


@pytest.fixture
def serving(monkeypatch):
    """vLLM's class, as far as it is looked at."""

    class GenerateBaseServing:
        @staticmethod
        def _get_session_id(request, raw_request):
            return request.session_id or raw_request.headers.get("x-session-id")

    module = ModuleType(MODULE)
    module.GenerateBaseServing = GenerateBaseServing
    monkeypatch.setitem(sys.modules, MODULE, module)
    return GenerateBaseServing


def raw_request(**headers):
    return SimpleNamespace(headers=headers, scope={"state": {}})


def test_what_vllm_finds_is_noted_and_answered_as_before(serving):
    note_sessions(Fuse())
    raw = raw_request()
    assert serving()._get_session_id(SimpleNamespace(session_id="s"), raw) == "s"
    assert raw.scope["state"] == {SESSION: "s"}


def test_it_is_noted_once_however_often_the_server_is_built(serving):
    note_sessions(Fuse())
    once = serving._get_session_id
    note_sessions(Fuse())
    assert serving._get_session_id is once


def test_vllms_own_error_is_vllms(serving):
    fuse = Fuse()
    note_sessions(fuse)
    with pytest.raises(AttributeError):
        serving._get_session_id(None, raw_request())
    assert not fuse.blown


def test_without_a_request_nothing_is_noted_and_nothing_fails(serving):
    fuse = Fuse()
    note_sessions(fuse)
    assert serving._get_session_id(SimpleNamespace(session_id="s"), None) == "s"
    assert not fuse.blown


def test_a_release_that_finds_no_session_is_said_once(caplog):
    caplog.set_level("INFO")
    note_sessions(Fuse())
    assert len(caplog.messages) == 1


def test_a_release_that_finds_it_in_another_way_is_left_alone(serving):
    serving._get_session_id = lambda *_: "s"
    kept = serving._get_session_id
    note_sessions(Fuse())
    assert serving._get_session_id is kept
