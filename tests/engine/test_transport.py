from __future__ import annotations

import contextlib

import pytest
import requests

from http_double import http_double, silence, whole
from vllm_observe.engine.transport import CuttableAdapter


@pytest.fixture
def server():
    with http_double() as double:
        double.answers |= {"/silence": silence, "/": whole(b"here")}
        yield double


@pytest.fixture
def adapter():
    with contextlib.closing(CuttableAdapter()) as made:
        yield made


def send(adapter, url):
    return adapter.send(requests.Request("GET", url).prepare(), timeout=10.0).content


def test_a_cut_before_the_connection_is_open_counts_once_it_is(server, adapter):
    with adapter.within(60.0):
        adapter.cut()
        with pytest.raises(requests.ConnectionError):
            send(adapter, server.url + "/silence")
    assert adapter.was_cut


def test_a_cut_counts_for_one_block_only(server, adapter):
    with adapter.within(60.0):
        adapter.cut()
    with adapter.within(60.0):
        assert send(adapter, server.url + "/") == b"here"
    assert not adapter.was_cut


def test_it_is_known_whether_a_connection_is_new(server, adapter):
    for new in (True, False):
        with adapter.within(60.0):
            send(adapter, server.url + "/")
        assert adapter.connecting is new
