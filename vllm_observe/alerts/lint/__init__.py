"""Lint Prometheus rules: what ``promtool check rules`` passes, and what can never fire all the same."""
