"""The files that operators take away, and the command that writes and checks them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import yaml

from support.boards import panels
from vllm_observe.cli import main
from vllm_observe.dashboards import BOARDS, Options, files, render
from vllm_observe.dashboards.guide import pages
from vllm_observe.errors import ConfigError
from vllm_observe.serve.api.openapi import openapi_document
from vllm_observe.serve.exemplars import exemplar_labels
from vllm_observe.signals import NEWEST

COMMITTED = Path(__file__).parents[2] / "dashboards"


@pytest.fixture
def run(capsys):
    """Run the command; give its exit code and what it wrote to both streams."""

    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["render-dashboards", *map(str, arguments)])
        return ended.value.code, *capsys.readouterr()

    return command


def test_the_committed_boards_are_those_that_the_code_makes(run):
    assert run("--check", "--output", COMMITTED) == (0, "", "")
    assert {file.name for file in COMMITTED.glob("*.json")} == {f"{board.name}.json" for board in BOARDS}


def test_a_file_holds_one_board_as_json_and_ends_in_a_newline(tmp_path, run):
    code, out, err = run("--output", tmp_path / "new" / "folder")

    written = sorted((tmp_path / "new" / "folder").iterdir())
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [str(file) for file in written]
    assert len(written) == len(BOARDS)
    for file in written:
        text = file.read_text(encoding="utf-8")
        assert json.loads(text)["uid"] == f"vllm-observe-{file.stem}"
        assert text.endswith("}\n")


def test_the_check_names_the_files_that_differ_and_writes_none(tmp_path, run):
    run("--output", tmp_path)
    (tmp_path / "engine.json").write_text("{}\n")
    (tmp_path / "sidecar.json").unlink()

    code, out, err = run("--check", "--output", tmp_path)

    assert code == 1
    assert sorted(out.splitlines()) == [str(tmp_path / name) for name in ("engine.json", "sidecar.json")]
    assert len(err.splitlines()) == 1
    assert (tmp_path / "engine.json").read_text() == "{}\n"
    assert not (tmp_path / "sidecar.json").exists()


def test_rendering_twice_gives_the_same_bytes():
    assert files() == files()
    assert render() == render()


def test_config_maps_hold_the_same_boards_for_grafanas_sidecar(tmp_path, run):
    assert run("--kubernetes", "--output", tmp_path)[0] == 0

    for board in BOARDS:
        text = (tmp_path / f"{board.name}.yaml").read_text(encoding="utf-8")
        manifest = yaml.safe_load(text)
        assert (manifest["apiVersion"], manifest["kind"]) == ("v1", "ConfigMap")
        assert manifest["metadata"]["labels"] == {"grafana_dashboard": "1"}
        assert manifest["data"] == {f"vllm-observe-{board.name}.json": files()[f"{board.name}.json"]}
        assert len(text.encode()) < 1024 * 1024  # a ConfigMap holds no more


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--vllm-version", "newest"], "write it like 0.10.2"),
        (["--vllm-version", "0.5.0"], "from 0.6.6.post1 on"),
        (["--metric-prefix", "ray-vllm:"], "write it like ray_vllm:"),
        (["--metric-prefix", "vllm"], "write it like ray_vllm:"),
        (["--metric-prefix", ""], "write it like ray_vllm:"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path, run, arguments, told):
    code, out, err = run("--output", tmp_path, *arguments)

    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path, run):
    file = tmp_path / "file"
    file.touch()

    code, _, err = run("--output", file)

    assert code == 1
    assert str(file) in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "version", ["v0.10.2", "0.11.0.post2", "0.11.0post2", "99.0", "0.10.2rc1", "0.11.0+cu128"]
)
def test_releases_are_written_as_vllm_writes_them(version):
    assert Options(vllm_version=version).vllm_version == version


@pytest.mark.parametrize("build", ["0.11.0.post2+cu128", "0.11.0rc1.post2"])
def test_a_build_has_the_names_of_its_release(build):
    assert files(Options(vllm_version=build)) == files(Options(vllm_version="0.11.0.post2"))


@pytest.mark.parametrize(("version", "told"), [("99.0", 1), (NEWEST, 0), ("0.10.2", 0)])
def test_a_release_that_no_one_knows_yet_is_told_in_one_line(tmp_path, run, version, told):
    code, _, err = run("--output", tmp_path, "--vllm-version", version)

    assert code == 0
    assert len(err.splitlines()) == told
    assert (NEWEST in err) == bool(told)


def test_a_post_release_comes_after_its_own():
    """``request_time_per_output_token_seconds`` came with 0.11.0.post2."""

    def has(version):
        titles = json.dumps(render(Options(vllm_version=version))["engine"])
        return "vllm:request_time_per_output_token_seconds_bucket" in titles

    assert [has(version) for version in ("0.11.0", "0.11.0.post1", "0.11.0.post2", "0.11.1")] == [
        False,
        False,
        True,
        True,
    ]


def test_a_version_that_is_no_text_of_a_release_is_an_error():
    with pytest.raises(ConfigError):
        Options(vllm_version="0.11.x")


def test_the_guide_has_a_page_a_board_and_tells_of_each_panel():
    guide = pages()

    assert guide.keys() == {"README.md", *(f"{board.name}.md" for board in BOARDS)}
    for board in BOARDS:
        page = guide[f"{board.name}.md"]
        assert all(f"**{panel.title}.**" in page for panel in board.panels)
        assert f"({board.name}.md)" in guide["README.md"]


def test_what_the_readme_provisions_is_yaml_and_leads_from_an_exemplar_to_its_request():
    readme = (COMMITTED / "README.md").read_text(encoding="utf-8")
    provider, source = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL))

    assert provider["providers"][0]["type"] == "file"
    (destination,) = source["datasources"][0]["jsonData"]["exemplarTraceIdDestinations"]
    assert destination["name"] in exemplar_labels("abc")
    assert destination["url"].endswith("/api/v1/requests/$${__value.raw}")
    assert "/api/v1/requests/{request_id}" in openapi_document()["paths"]


def test_links_to_the_sidecar_ask_what_its_api_answers():
    links = {link["url"] for panel in panels(render()["requests"]) for link in panel["links"]}

    assert links
    for link in links:
        address, _, asked = link.partition("?")
        told = openapi_document()["paths"][address.removeprefix("${sidecar}")]["get"]
        known = {parameter["name"] for parameter in told["parameters"]}
        assert known >= set(parse_qs(asked.replace("${__", "").replace("}", "")))


def test_the_readme_lists_every_board():
    readme = (COMMITTED / "README.md").read_text(encoding="utf-8")

    assert all(f"[{board.name}](../docs/dashboards/{board.name}.md)" in readme for board in BOARDS)
