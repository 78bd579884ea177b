"""Write the smallest model that vLLM serves: a two-layer Llama and a tokenizer whose tokens are bytes.

There are no weights: ``vllm serve --load-format dummy`` draws them at random, so what the model
answers means nothing, and how long it takes is real. One character of ASCII is one token, so a test
knows how many tokens a prompt has.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MAX_TOKENS = 4096
SPECIAL_TOKENS = ("<s>", "</s>", "<pad>")
CHAT_TEMPLATE = "{% for turn in messages %}{{ turn.role }}: {{ turn.content }}\n{% endfor %}assistant: "


def write_tiny_model(target: Path) -> None:
    """Write the model's folder in the form that Hugging Face's libraries read."""
    vocabulary = {character: number for number, character in enumerate((*byte_alphabet(), *SPECIAL_TOKENS))}
    first, last, padding = (vocabulary[token] for token in SPECIAL_TOKENS)
    target.mkdir(parents=True, exist_ok=True)
    for name, content in {
        "config.json": _config(len(vocabulary), bos_token_id=first, eos_token_id=last, pad_token_id=padding),
        "tokenizer.json": _tokenizer(vocabulary),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": MAX_TOKENS,
            "bos_token": "<s>",
            "eos_token": "</s>",
            "pad_token": "<pad>",
            "chat_template": CHAT_TEMPLATE,
        },
    }.items():
        (target / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def byte_alphabet() -> list[str]:
    """One printable character for each of the 256 bytes, in the order of the bytes.

    Byte-level tokenizers write a byte that Latin-1 prints as itself, and the others as the
    characters from U+0100 on.
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 0x100)}
    stand_ins = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(stand_ins)) for byte in range(0x100)]


def _config(vocabulary_size: int, **special_ids: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",  # the name that transformers 4 reads
        "vocab_size": vocabulary_size,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": MAX_TOKENS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        **special_ids,
    }


def _tokenizer(vocabulary: dict[str, int]) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": vocabulary[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in SPECIAL_TOKENS
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
