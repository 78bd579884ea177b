"""The scripts that install and serve a real vLLM, as far as they go without one."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import real_vllm
from tiny_model import byte_alphabet, write_tiny_model


@pytest.fixture
def installation(tmp_path):
    made = real_vllm.Installation(real_vllm.RELEASES["0.32.0"], tmp_path)
    made.python.parent.mkdir(parents=True)
    made.python.touch()
    made.stamp.write_text(json.dumps(made.recipe()))
    return made


def test_an_installation_with_its_stamp_is_complete(installation):
    assert installation.is_complete()


def test_an_installation_that_was_cut_short_is_not_complete(installation):
    installation.stamp.unlink()
    assert not installation.is_complete()


def test_an_installation_whose_stamp_was_half_written_is_not_complete(installation):
    installation.stamp.write_text(installation.stamp.read_text()[:20])
    assert not installation.is_complete()


def test_an_installation_of_another_release_is_not_complete(installation):
    assert not replace(installation, release=real_vllm.RELEASES["0.24.0"]).is_complete()


def test_an_installation_whose_python_has_gone_is_not_complete(installation):
    installation.python.unlink()
    installation.python.symlink_to("gone")
    assert not installation.is_complete()


def test_the_cache_lies_outside_the_checkout_and_by_release(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    roots = {real_vllm.cached(release).root for release in real_vllm.RELEASES.values()}
    assert len(roots) == len(real_vllm.RELEASES)
    assert all(root.is_relative_to(tmp_path) for root in roots)


def test_serving_what_is_not_installed_says_how_to_install_it(tmp_path):
    done = subprocess.run(
        [sys.executable, real_vllm.__file__, "serve"],
        env={"XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "install --release 0.32.0" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unknown_release_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as refused:
        real_vllm.main(["install", "--release", "0.1.0"])
    assert refused.value.code == 2
    assert "0.24.0" in capsys.readouterr().err


def test_each_release_has_its_list_of_requirements():
    assert real_vllm.RELEASES
    for release in real_vllm.RELEASES.values():
        assert release.requirements.exists()


def test_each_byte_has_a_printable_character_of_its_own():
    alphabet = byte_alphabet()
    assert len(set(alphabet)) == 256
    assert all(character.isprintable() for character in alphabet)
    assert alphabet[ord("A")] == "A"
    assert alphabet[ord(" ")] == "Ġ"  # as GPT-2's tokenizer writes a space


def test_the_models_vocabulary_and_its_configuration_agree(tmp_path: Path):
    write_tiny_model(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    vocabulary = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(config["vocab_size"]))
    assert vocabulary["</s>"] == config["eos_token_id"]
