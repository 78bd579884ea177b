"""What the tests of the boards share: queries put to promtool."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from support.boards import fill

#: Grafana's typed models need Python 3.11.
collect_ignore = ["test_round_trip.py"] if sys.version_info < (3, 11) else []


@pytest.fixture
def answers(promtool, tmp_path):
    """Compare what a query answers at 10 minutes with ``{labels: value}``."""

    def compare(promql, series, expected, **picked):
        test = {
            "rule_files": [],
            "evaluation_interval": "30s",
            "tests": [
                {
                    "interval": "30s",
                    "input_series": [
                        {"series": name, "values": str(values)} for name, values in series.items()
                    ],
                    "promql_expr_test": [
                        {
                            "expr": fill(promql, **picked),
                            "eval_time": "10m",
                            "exp_samples": [
                                {"labels": labels, "value": value} for labels, value in expected.items()
                            ],
                        }
                    ],
                }
            ],
        }
        file = tmp_path / "test.yml"
        file.write_text(yaml.safe_dump(test))
        done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    return compare
