from __future__ import annotations

import socket

from vllm_observe.demo.child import free_addresses


def test_a_port_that_is_taken_is_replaced_and_a_free_one_is_kept():
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free.bind(("127.0.0.1", 0))
        ports = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        first, second = free_addresses(*ports)
    assert first.startswith("127.0.0.1:")
    assert first != f"127.0.0.1:{ports[0]}"
    assert second == f"127.0.0.1:{ports[1]}"


def test_two_ports_that_are_taken_are_replaced_by_different_ones():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert len(set(free_addresses(port, port, port))) == 3
