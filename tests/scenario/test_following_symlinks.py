"""A log that is a symbolic link, whose target is switched."""

from __future__ import annotations

import pytest

from support.logs import Followed, write


@pytest.fixture
def link(tmp_path):
    path = tmp_path / "app.jsonl"
    path.symlink_to(tmp_path / "monday")
    return path


@pytest.fixture
def followed(link):
    followed = Followed(link)
    yield followed
    followed.follower.close()


def switch(link, target):
    link.unlink()
    link.symlink_to(target)


def test_the_target_is_read_through_the_link(tmp_path, followed):
    assert followed.poll() == []  # the link leads nowhere yet
    write(tmp_path / "monday", "one\n")
    assert followed.poll() == ["one"]


def test_the_old_target_is_read_to_its_end_and_the_new_one_from_its_first_byte(tmp_path, link, followed):
    write(tmp_path / "monday", "one\n")
    followed.poll()
    write(tmp_path / "monday", "two\n")
    write(tmp_path / "tuesday", "three\n")
    switch(link, tmp_path / "tuesday")
    assert followed.poll() == ["two", "three"]
    assert followed.follower.counts.rotations == 1


def test_a_link_that_is_switched_back_goes_on_where_it_was(tmp_path, link, followed):
    write(tmp_path / "monday", "one\n")
    followed.poll()
    write(tmp_path / "tuesday", "two\n")
    switch(link, tmp_path / "tuesday")
    followed.poll()
    followed.clock.advance(1000)
    followed.poll()
    write(tmp_path / "monday", "three\n")
    switch(link, tmp_path / "monday")
    assert followed.poll() == ["three"]


@pytest.mark.usefixtures("link")
def test_a_file_under_two_names_is_read_once(tmp_path):
    write(tmp_path / "monday", "one\n")
    both = Followed(tmp_path / "*")
    assert both.poll() == ["one"]
    both.follower.close()


def test_links_in_a_circle_are_no_log_and_no_end(tmp_path):
    circle = tmp_path / "app.jsonl"
    circle.symlink_to(circle)
    followed = Followed(circle)
    assert followed.poll() == []
    assert followed.follower.open_errors == 1
    switch(circle, tmp_path / "target")
    write(tmp_path / "target", "one\n")
    assert followed.poll() == ["one"]
    followed.follower.close()
