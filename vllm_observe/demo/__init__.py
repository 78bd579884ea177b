"""The demo: a vLLM that was recorded under load, its request log, and the real sidecar beside them.

Nothing in it knows a cause. The recorded vLLM tells how full it was and the log how long each request
took, as in production; what `vllm-observe demo` prints is read from the sidecar's own page.
"""
