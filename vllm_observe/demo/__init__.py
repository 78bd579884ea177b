"""The demo: a simulated vLLM, its users, and the real sidecar beside them, as one tree of processes.

Nothing in it tells a cause. The simulated vLLM and its users know what befalls them, but all that the
demo shows is asked of the sidecar and of Prometheus, as a person on call would.
"""
