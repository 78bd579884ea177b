from __future__ import annotations

import pytest

from vllm_observe.sizes import parse_size, show_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("33554432", 33_554_432),
        ("512B", 512),
        ("4KiB", 4096),
        ("64MiB", 67_108_864),
        (" 2 GiB ", 2_147_483_648),
        ("1.5GiB", 1_610_612_736),
        ("1TiB", 1_099_511_627_776),
        ("0.1KiB", 102),
        ("0", 0),
        ("999999999999999999", 999_999_999_999_999_999),
    ],
)
def test_a_size_is_read_with_its_unit(text, size):
    assert parse_size(text) == size


# GB and G are left out: to some they are powers of 1000, to others of 1024.
@pytest.mark.parametrize(
    "text", ["", "MiB", "-4MiB", "4GB", "4G", "4mib", "1e3", "\u0664MiB", "9" * 400, "4\n5"]
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="must be bytes, or a size such as 512KiB, 64MiB or 2GiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"), [(33_554_432, "32 MiB"), (2_147_483_648, "2 GiB"), (1536, "1536 B"), (1, "1 B")]
)
def test_a_size_is_shown_in_a_unit_that_leaves_no_rest(size, text):
    assert show_size(size) == text
