"""Proofs of the rules as data: what makes each fire, what does not, rendered as promtool's unit tests."""
