"""A simulated vLLM: continuous batching on a virtual clock, seen as a real one would show itself.

What the simulator knows of a request's true cause goes into labels beside the records; nothing else
in the product reads them.
"""
