"""What the sidecar shows: its /metrics page, the admin API and the page for people."""
