"""What runs inside vLLM: it writes down each request as the server and as the engine saw it.

Start vLLM with ``--middleware vllm_observe.plugin.RequestLogMiddleware``. From 0.11.1 on vLLM finds
the stat logger by itself, through the entry point in the group ``vllm.stat_logger_plugins``.

`middleware` stands around vLLM's HTTP server, `exchange` watches one request pass and `answers` reads
what the bytes of an answer tell. `stat_logger` is called after each step of an engine, and
`engine_watch` makes records of what it is told. Both hand their records to `writer`, whose thread
appends them to `logfile`. `fuse` keeps any fault of ours away from the requests.

This package imports the standard library, vLLM, and nothing else: it must run in any vLLM's Python.
"""

from vllm_observe.plugin.middleware import RequestLogMiddleware

__all__ = ["RequestLogMiddleware"]
