"""Prometheus rules and Alertmanager routes as data: rendered into alerts/."""
