from __future__ import annotations

import pytest

from vllm_observe.errors import ConfigError
from vllm_observe.preview.board import read
from vllm_observe.preview.span import Span
from vllm_observe.preview.variables import Filling

SPAN = Span(1_000.0, 4_600.0)


class Values:
    """Tells a label's values, and notes which series it was asked of."""

    def __init__(self, *values):
        self.values, self.asked = list(values), []

    def label_values(self, label, *, selector, start, end):
        assert (start, end) == (SPAN.start, SPAN.end)
        self.asked.append((label, selector))
        return self.values


def filling(variables, picked=None, prometheus=None):
    board = read({"panels": [], "templating": {"list": variables}})
    return Filling(board, picked or {}, prometheus=prometheus or Values(), span=SPAN)


def query(name, text, **told):
    return {"name": name, "type": "query", "query": {"query": text}, "current": {"value": ["$__all"]}, **told}


def test_all_is_what_the_board_says_that_it_is():
    made = filling([query("model", "label_values(up, model)", allValue=".+")])
    assert made.fill('up{model=~"$model"}', step=15) == 'up{model=~".+"}'


def test_all_without_such_a_word_is_every_value_that_there_is():
    values = Values("a.b", "c")
    made = filling([query("job", 'label_values(up{x="1,2"}, job)')], prometheus=values)

    assert made.fill('{job=~"$job"}', step=15) == r'{job=~"(a\\.b|c)"}'
    assert values.asked == [("job", 'up{x="1,2"}')]


def test_a_variable_may_depend_on_the_one_before():
    values = Values("v")
    filling(
        [query("job", "label_values(job)", allValue=".+"), query("it", 'label_values(up{job=~"$job"}, it)')],
        prometheus=values,
    )
    assert values.asked == [("it", 'up{job=~".+"}')]


@pytest.mark.parametrize(
    ("picked", "filled"),
    [
        (["a"], "a"),
        (["a", "b"], "(a|b)"),
        (["a.b:80"], r"a\\.b:80"),
        (['x"y'], r"x\"y"),
        (["(|)"], r"\\(\\|\\)"),
    ],
)
def test_what_is_picked_matches_itself_alone(picked, filled):
    assert filling([query("v", "")], {"v": picked}).fill("$v", step=15) == filled


def test_a_variable_that_the_board_lacks_is_refused():
    with pytest.raises(ConfigError, match="only job"):
        filling([query("job", "")], {"jbo": ["x"]})


def test_macros_are_grafanas():
    """An hour of which a point is 30 s, on scrapes of 15 s: four of them, and more than one point."""
    made = filling([])
    text = "$__interval ${__rate_interval} $__range $__range_s [[__range_ms]] $unknown"
    assert made.fill(text, step=30) == "30s 60s 3600s 3600 3600000 $unknown"
    assert made.fill("$__rate_interval", step=120) == "135s"


def test_points_are_no_closer_than_scrapes():
    assert SPAN.step(pixels=10_000) == 15
    assert SPAN.step(pixels=100) == 60
    assert Span(0.0, 90 * 86_400.0).step(pixels=10) == 9 * 86_400
