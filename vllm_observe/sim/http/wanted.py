"""The simulated requests that one request over HTTP becomes: one for each answer that it wants."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from vllm_observe.sim.http.asked import COMPLETIONS, Asked, BadRequestError
from vllm_observe.sim.http.words import Output
from vllm_observe.sim.prompts import length
from vllm_observe.sim.requests import Arrival

__all__ = ["Wanted", "wanted"]

#: Tokens that the model says on the average, where nothing else decides it.
_USUAL_OUTPUT = 200


class Wanted(NamedTuple):
    """An answer that is wanted, and what it will be."""

    arrival: Arrival
    output: Output


def wanted(
    asked: Asked,
    *,
    at: float,
    path: str,
    request_id: str,
    priority: int,
    adapter: str | None,
    context: int,
    cuts: bool,
) -> list[Wanted]:
    """Return what a request wants, in the order of its answers.

    Args:
        asked: the request.
        at: when it came, on the simulation's clock.
        path: where it came.
        request_id: vLLM's id of it.
        priority: the lower goes first.
        adapter: the LoRA adapter that it is for.
        context: the longest that a prompt and its output may be.
        cuts: whether an output for which there is no room is cut short; else it is refused.

    Raises:
        BadRequestError: there is no room for a prompt and its output.
    """
    found = []
    for index in range(asked.n * len(asked.prompts)):
        prompt = asked.prompts[index // asked.n]
        room = context - length(prompt)
        if room < 1 or (not cuts and (asked.max_tokens or 1) > room):
            raise BadRequestError(
                f"the model's context is {context} tokens, which is less than what is asked for",
                param="input_tokens",
            )
        most = min(room, asked.max_tokens or room)
        chance = f"{request_id} {index}"
        output = Output(chance, min(most, _said(asked, chance, most)))
        arrival = Arrival(
            at=at,
            request_id=f"{request_id}-{index // asked.n}" if path == COMPLETIONS else request_id,
            prompt=prompt,
            output_tokens=output.words,
            output_name=output.name,
            max_tokens=most,
            priority=priority,
            adapter=adapter,
            stream=asked.streams,
            path=path,
        )
        found.append(Wanted(arrival, output))
    return found


def _said(asked: Asked, chance: str, most: int) -> int:
    """Return the tokens that the model says if nothing cuts it short: the same for the same request."""
    if asked.ignores_end:
        return most
    if asked.output_tokens is not None:
        return asked.output_tokens
    return 1 + int(Random(chance).expovariate(1 / _USUAL_OUTPUT))  # noqa: S311  # no secret
