from __future__ import annotations

import base64
import os

import pytest

from vllm_observe.errors import ConfigError
from vllm_observe.serve.auth import Credentials, check_exposure


def basic(text: str, encoding: str = "utf-8") -> str:
    return "Basic " + base64.b64encode(text.encode(encoding)).decode()


@pytest.fixture
def token_file(tmp_path):
    file = tmp_path / "token"
    file.write_text("sesame-1\n")
    return file


@pytest.fixture
def users_file(tmp_path):
    file = tmp_path / "users"
    file.write_text(
        "# who may look\n\nprometheus:s3:cret \nañejo:contraseña\r\n", encoding="utf-8", newline=""
    )
    return file


def test_without_a_file_everybody_may_ask():
    credentials = Credentials()
    assert (credentials.required, credentials.allows(None)) == (False, True)


@pytest.mark.parametrize(
    ("header", "opens"),
    [
        ("Bearer sesame-1", True),
        ("bearer   sesame-1", True),
        ("Bearer sesame-2", False),
        ("Bearer sesame-", False),
        ("Bearer ", False),
        ("Bearer", False),
        ("sesame-1", False),
        ("Basic sesame-1", False),
        ("Bearer sesame-1 sesame-1", False),
        ("Bearer \ud800", False),
        ("", False),
        (None, False),
    ],
)
def test_a_bearer_token_opens_and_nothing_else(token_file, header, opens):
    assert Credentials(token_file=token_file).allows(header) is opens


@pytest.mark.parametrize(
    ("header", "opens"),
    [
        (basic("prometheus:s3:cret "), True),  # a password may hold colons and end in a space
        (basic("añejo:contraseña"), True),
        (basic("prometheus:s3:cret"), False),
        (basic("prometheus:"), False),
        (basic("prometheus"), False),
        (basic("# who may look"), False),
        (basic(""), False),
        ("Basic !!!", False),
        ("Basic", False),
        ("Bearer prometheus:s3:cret ", False),
    ],
)
def test_a_user_with_the_password_opens_and_nothing_else(users_file, header, opens):
    assert Credentials(basic_auth_file=users_file).allows(header) is opens


def test_a_token_and_a_user_can_both_open(token_file, users_file):
    both = Credentials(token_file=token_file, basic_auth_file=users_file)
    assert both.allows("Bearer sesame-1")
    assert both.allows(basic("añejo:contraseña"))
    assert both.challenge == 'Bearer, Basic realm="vllm-observe", charset="UTF-8"'


def test_two_tokens_open_while_one_takes_the_others_place(token_file):
    token_file.write_bytes(b"\xef\xbb\xbfsesame-1\r\n sesame-2 \r\n")
    credentials = Credentials(token_file=token_file)
    assert credentials.allows("Bearer sesame-1")
    assert credentials.allows("Bearer sesame-2")


@pytest.mark.parametrize("content", [b"", b"\n \n", b"# a comment alone\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused_and_never_means_open(token_file, content):
    token_file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"token is empty; it must hold a bearer token, one a line"):
        Credentials(token_file=token_file)


@pytest.mark.parametrize("content", [b"two words\n", b"caf\xc3\xa9\n", b"\x00\x01\x02", b"good\nbad one\n"])
def test_what_no_header_can_carry_is_no_token(token_file, content):
    token_file.write_bytes(content)
    with pytest.raises(ConfigError, match="token is wrong in line") as refused:
        Credentials(token_file=token_file)
    assert "bad" not in str(refused.value)


@pytest.mark.parametrize(
    "line",
    ["prometheus", "prometheus:", ":secret", "u:$2y$05$abcdefgh", "u:$apr1$x$y", "u:{SHA}x=", "u:$6$x$y"],
)
def test_a_line_without_a_plain_password_is_refused_without_being_quoted(users_file, line):
    users_file.write_text(f"a:b\n{line}\n")
    with pytest.raises(ConfigError, match="users is wrong in line 2; it must hold user:password") as refused:
        Credentials(basic_auth_file=users_file)
    assert line not in str(refused.value)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"gone cannot be read \(No such file or directory\)"):
        Credentials(token_file=tmp_path / "gone")


@pytest.mark.parametrize(
    "make", [lambda path: path.mkdir(), os.mkfifo, lambda path: path.symlink_to("/dev/zero")]
)
def test_what_is_no_file_is_refused_at_once(tmp_path, make):
    path = tmp_path / "token"
    make(path)
    with pytest.raises(ConfigError, match="token is not a file"):
        Credentials(token_file=path)


def test_a_huge_file_is_refused(token_file):
    token_file.write_bytes(b"x" * 70_000)
    with pytest.raises(ConfigError, match="token is too large"):
        Credentials(token_file=token_file)


def test_a_path_that_no_system_has_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        Credentials(token_file=tmp_path / "a\0b")


def test_a_new_token_counts_from_the_next_request_on(token_file):
    credentials = Credentials(token_file=token_file)
    token_file.write_text("another-token\n")
    assert credentials.allows("Bearer another-token")
    assert not credentials.allows("Bearer sesame-1")


def test_a_file_that_another_takes_the_place_of_is_read_again(token_file, tmp_path):
    credentials = Credentials(token_file=token_file)
    stat = token_file.stat()
    other = tmp_path / "other"
    other.write_text("sesame-2\n")
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # the same size and time, as a copy can have
    other.rename(token_file)
    assert credentials.allows("Bearer sesame-2")


def test_a_file_that_has_gone_lets_nobody_in_until_it_returns(token_file):
    credentials = Credentials(token_file=token_file)
    token_file.unlink()
    assert not credentials.allows("Bearer sesame-1")
    assert not credentials.allows(None)
    token_file.write_text("sesame-1\n")
    assert credentials.allows("Bearer sesame-1")


def test_a_file_that_becomes_empty_lets_nobody_in(token_file):
    credentials = Credentials(token_file=token_file)
    token_file.write_text("")
    assert not credentials.allows("Bearer sesame-1")
    assert not credentials.allows("Bearer ")
    assert not credentials.allows(None)


@pytest.mark.parametrize("listen", ["127.0.0.1:9810", "[::1]:9810", "localhost:9810", "127.8.8.8:1"])
def test_on_loopback_no_credentials_are_needed(listen):
    check_exposure(listen, Credentials())


@pytest.mark.parametrize("listen", ["0.0.0.0:9810", ":9810", "[::]:9810", "10.0.0.5:9810", "sidecar:9810"])
def test_off_loopback_it_refuses_to_start_without_credentials(listen, token_file):
    with pytest.raises(
        ConfigError, match=r"^--admin-listen: .*set admin_security\.token_file, or listen on 127"
    ):
        check_exposure(listen, Credentials())
    check_exposure(listen, Credentials(token_file=token_file))
