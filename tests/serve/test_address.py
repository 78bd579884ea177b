from __future__ import annotations

import pytest

from vllm_observe.errors import ConfigError
from vllm_observe.serve.address import Address, is_loopback, parse_address, split_host


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("0.0.0.0:9809", "0.0.0.0", 9809),
        ("127.0.0.1:0", "127.0.0.1", 0),
        (":9809", "0.0.0.0", 9809),
        ("[::1]:9810", "::1", 9810),
        ("[::]:9809", "::", 9809),
        ("[fe80::1%eth0]:9809", "fe80::1%eth0", 9809),
        ("sidecar.example:65535", "sidecar.example", 65535),
        (" localhost:9810\n", "localhost", 9810),
    ],
)
def test_an_address_is_a_host_and_a_port(text, host, port):
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9809",  # this host or the whole network? never guessed
        "localhost",
        "localhost:",
        "::1:9810",  # where does the host end?
        "[::1]",
        "[::1:9810",
        "0.0.0.0:65536",
        "0.0.0.0:-1",
        "0.0.0.0:98O9",
        "0.0.0.0:٩٨٠٩",
        "http://0.0.0.0:9809",
        "user:password@host:9809",
        "a host:9809",
        "0.0.0.0:9809/metrics",
    ],
)
def test_what_is_no_address_is_refused_in_one_line_that_names_the_flag(text):
    with pytest.raises(ConfigError, match=r"^--admin-listen must be HOST:PORT, for example .*\[::1\]:9809$"):
        parse_address(text, flag="--admin-listen")


def test_an_address_reads_as_it_was_written():
    assert [str(parse_address(text)) for text in ("[::1]:9810", "127.0.0.1:9810")] == [
        "[::1]:9810",
        "127.0.0.1:9810",
    ]


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("sidecar", False),
        ("", False),
    ],
)
def test_only_this_machines_own_addresses_are_loopback(host, loopback):
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("localhost:9810", "localhost"),
        ("localhost", "localhost"),
        ("[::1]:9810", "::1"),
        ("[::1]", "::1"),
        ("evil.example:9810", "evil.example"),
        ("[", ""),
        ("", ""),
    ],
)
def test_a_host_header_is_a_host_with_or_without_a_port(header, host):
    assert split_host(header) == host
