"""Which request was slow on a vLLM server, whose it was, and why."""

__version__ = "0.1.0"
