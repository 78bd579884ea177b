"""Listeners on free ports of this machine, closed at the end of a test."""

from __future__ import annotations

import pytest

from vllm_observe.serve.listener import Listener


@pytest.fixture
def serve():
    listeners = []

    def start(app, listen="127.0.0.1:0", tls=None):
        listener = Listener(app, listen, flag="--listen", tls=tls)
        listeners.append(listener)
        listener.start()
        return listener

    yield start
    closed = [listener.close(5.0) for listener in listeners]
    assert all(closed)
