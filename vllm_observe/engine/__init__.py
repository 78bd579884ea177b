"""vLLM's side: what its /metrics page says, in today's names, and what follows from it."""
