"""The simulated vLLM as an HTTP server: on the real clock, in the words of one release."""
