"""The unit tests' files: one a group of rules, and one of the edges."""

from __future__ import annotations

from collections.abc import Iterable

from vllm_observe.alerts.options import RuleOptions
from vllm_observe.alerts.proofs.proof import Scene
from vllm_observe.alerts.proofs.registry import edges, page_of, proofs_of
from vllm_observe.alerts.proofs.render import holds, unit_tests
from vllm_observe.alerts.rules import rule_groups

__all__ = ["test_files"]


def test_files(options: RuleOptions) -> dict[str, str]:
    """Return files for ``promtool test rules``, by their names; the rules are expected in ../rules.

    Each test runs all the rules and lists all that fires: what must stay quiet is proven everywhere.

    Args:
        options: with the usual targets and promises: it is them that the proofs are made for.
    """
    groups = rule_groups(options)
    proofs, known = proofs_of(groups, options), holds(groups)
    rule_files = [f"../rules/{group.name}.yaml" for group in groups]

    def document(scenes: Iterable[Scene]) -> str:
        return unit_tests(scenes, page_of(options), rule_files)

    return {
        **{
            f"{group.name}.yaml": document(
                scene for rule in holds([group]) for scene in proofs[rule].scenes(known[rule])
            )
            for group in groups
        },
        "edges.yaml": document(edges(options)),
    }
