"""Joined requests, kept: one protocol, and SQLite as the embedded default."""
