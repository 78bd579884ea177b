"""The command, on a real Prometheus that holds an hour of three servers."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from base64 import b64decode
from datetime import datetime
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from http_double import http_double, whole
from support.programs import free_port
from support.prometheus import prometheus_for
from vllm_observe.cli import main
from vllm_observe.dashboards import BOARDS

END = 1_728_003_600
HOUR = ["--since", "1h", "--until", str(END)]


@pytest.fixture(scope="module")
def held(promtool, prometheus, tmp_path_factory):
    """A Prometheus with samples every 15 s of an hour."""
    folder = tmp_path_factory.mktemp("held")
    lines = [
        f'{name}{{job="vllm",instance="vllm-{number}:8000",model_name="m",engine="0"}} {value} {at}'
        for at in range(END - 3600, END, 15)
        for number in range(3)
        for name, value in (
            ("vllm:num_requests_running", 10 * number + 5 + 3 * math.sin(at / 300)),
            ("vllm:generation_tokens_total", (at - END + 3600) * 100 * (number + 1)),
        )
    ]
    (folder / "samples.om").write_text("\n".join([*lines, "# EOF\n"]))
    command = [
        promtool,
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        "--quiet",
        folder / "samples.om",
        folder / "data",
    ]
    subprocess.run(command, check=True, capture_output=True)
    with prometheus_for(prometheus, {}, folder) as server:
        yield server


@pytest.fixture
def run(capsys):
    """Run the command; give its exit code and what it wrote."""

    def preview(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["preview", *map(str, arguments)])
        return ended.value.code, capsys.readouterr()

    return preview


def test_a_board_becomes_a_picture_as_wide_as_asked(run, held, tmp_path):
    file = tmp_path / "overview.png"
    code, written = run("overview", "--prometheus", held.url, "-o", file, *HOUR, "--width", "900")

    assert (code, written.out) == (0, f"{file}\n")
    with Image.open(file) as picture:
        assert picture.format == "PNG"
        assert picture.width == 900
        tones = {tone for _, tone in picture.convert("RGB").getcolors(1 << 24)}
    assert (0x73, 0xBF, 0x69) in tones  # Grafana's green: a line was drawn


def test_the_same_data_gives_the_same_page(run, held, tmp_path):
    files = [tmp_path / name for name in ("one.html", "two.html")]
    for file in files:
        run("engine", "--prometheus", held.url, "-o", file, *HOUR)

    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_page_holds_every_panel_with_its_description_and_asks_nobody_for_anything(run, held, tmp_path):
    board = tmp_path / "mine.json"
    panels = [
        {
            "type": "timeseries",
            "title": 'Running <"now">',
            "description": "What runs.\n\n<script>alert(1)</script>",
            "gridPos": {"x": 12, "y": 3, "w": 6, "h": 8},
            "targets": [
                {
                    "refId": "A",
                    "legendFormat": "{{instance}}",
                    "expr": 'sum by (instance) (vllm:num_requests_running{instance=~".+"})',
                }
            ],
        }
    ]
    board.write_text(json.dumps({"title": "Mine", "panels": panels}))
    file = tmp_path / "mine.html"
    code, _ = run(board, "--prometheus", held.url, "-o", file, *HOUR)

    page = file.read_text()
    assert code == 0
    assert "grid-column: 13 / span 6; grid-row: 4 / span 8" in page
    assert 'alt="Running &lt;&quot;now&quot;&gt;"' in page
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    (picture,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert ET.fromstring(b64decode(picture)).tag.endswith("svg")


def test_a_variable_picks(run, held, tmp_path):
    one, everything = tmp_path / "one.png", tmp_path / "everything.png"
    run("rollout", "--prometheus", held.url, "-o", everything, *HOUR)
    run("rollout", "--prometheus", held.url, "-o", one, *HOUR, "--variable", "instance=vllm-1:8000")

    assert one.stat().st_size < everything.stat().st_size


def test_where_there_is_nothing_to_draw_it_says_so_and_draws_nothing(run, held, tmp_path):
    file = tmp_path / "out.png"
    code, written = run(
        "rollout", "--prometheus", held.url, "-o", file, "--since", "1h", "--until", str(END - 86_400)
    )

    assert code == 1
    assert "--since, --until and --variable" in written.err
    assert written.err.count("\n") == 1
    assert not file.exists()


def test_a_value_that_is_not_there_is_told_with_those_that_are(run, held, tmp_path):
    file = tmp_path / "out.png"
    code, written = run(
        "rollout", "--prometheus", held.url, "-o", file, *HOUR, "--variable", "instance=nobody"
    )

    assert code == 1
    assert "no such value" in written.err
    assert "vllm-0:8000, vllm-1:8000, vllm-2:8000" in written.err
    assert written.err.count("\n") == 1
    assert not file.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nothing picked"),
        (
            ["--variable", "instance=vllm-1:8000", "--variable", "model_name=m"],
            "instance vllm-1:8000, model_name m",
        ),
        (
            ["--variable", "instance=vllm-1:8000", "--variable", "instance=vllm-2:8000"],
            "instance vllm-1:8000 + vllm-2:8000",
        ),
    ],
)
def test_a_page_says_of_which_time_it_is_and_what_is_picked(run, held, tmp_path, arguments, told):
    file = tmp_path / "out.html"
    run("rollout", "--prometheus", held.url, "-o", file, *HOUR, *arguments)

    (line,) = re.findall(r"<p>(20.+)</p>", file.read_text())
    time, picked = line.split(" · ")
    assert [datetime.fromisoformat(at).timestamp() for at in time.split(" to ")] == [END - 3600, END]
    assert picked == told


def test_help_names_every_board(run):
    code, written = run("--help")

    assert code == 0
    assert all(board.name in written.out for board in BOARDS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["overvew"], "did you mean overview"),
        (["overview", "--variable", "modle=x"], "only datasource, job, model_name"),
        (["overview", "--variable", "model_name"], "name=value"),
        (["overview", "--since", "yesterday"], "--since 'yesterday'"),
        (["overview", "--since", "2099-01-01T00:00:00Z"], "--since"),
        (["overview", "--scrape-interval", "0s"], "--scrape-interval"),
        (["overview", "--prometheus", "nowhere"], "http://127.0.0.1:9090"),
        (["overview", "-o", "picture.gif"], ".png or .html"),
    ],
)
def test_wrong_use_is_one_line_that_says_how_to_mend_it(run, held, tmp_path, arguments, said):
    file = tmp_path / "out.png"
    code, written = run("--prometheus", held.url, "-o", file, *arguments)

    assert code == 2
    assert said in written.err
    assert written.err.count("\n") == 1
    assert not file.exists()


def test_a_prometheus_that_cannot_be_reached_is_a_problem(run, tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    code, written = run("overview", "--prometheus", url, "-o", tmp_path / "out.png")

    assert code == 1
    assert url in written.err


def test_something_else_at_that_address_is_a_problem(run, tmp_path):
    with http_double() as server:  # answers 404
        code, written = run("overview", "--prometheus", server.url, "-o", tmp_path / "out.png")

    assert code == 1
    assert "HTTP 404" in written.err


def test_a_token_is_sent_and_not_said(run, tmp_path):
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with http_double() as server:
        answer = whole(b'{"status":"success","data":[]}')
        server.answers = _Everywhere(answer)
        run("overview", "--prometheus", server.url, "-o", tmp_path / "out.png", "--token-file", token)
        seen = {asked.headers.get("authorization") for asked in server.asked}

    assert seen == {"Bearer s3cret"}


class _Everywhere(dict):
    """The same answer for every path."""

    def __init__(self, answer):
        super().__init__()
        self._answer = answer

    def get(self, _path, _default=None):
        return self._answer


def test_without_matplotlib_it_says_what_to_install(tmp_path):
    program = (
        "import sys; sys.modules['matplotlib'] = None; from vllm_observe.cli import main; "
        f"main(['preview', 'overview', '--prometheus', 'http://127.0.0.1:1', '-o', {str(tmp_path / 'x.png')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "vllm-observe: preview needs matplotlib: pip install 'vllm-observe[preview]'\n"
