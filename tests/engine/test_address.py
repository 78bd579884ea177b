from __future__ import annotations

import socket

import pytest

from vllm_observe.engine.address import Address


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "[::1]", "0.0.0.0"])
def test_a_server_at_an_address_of_this_machine_is_local(host):
    assert Address.parse(f"http://{host}:8000").is_local()


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]", "no-such-host.invalid", "x" * 70])
def test_any_other_server_is_not(host):
    assert not Address.parse(f"http://{host}:8000").is_local()


def test_this_machines_own_name_is_local_where_it_resolves():
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        resolves = False
    else:
        resolves = True
    assert Address.parse(f"http://{socket.gethostname()}:8000").is_local() == resolves
