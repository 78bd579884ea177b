"""Workloads and incidents as data, and two ways to play them: on a virtual clock, and over HTTP."""
