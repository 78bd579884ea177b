"""Boards drawn from live data without Grafana: the one package that needs matplotlib."""
