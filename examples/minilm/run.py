"""Sentence embeddings before and after: MiniLM-L6, pruned, dense and with spjit.

    python examples/minilm/run.py [--sparsity 80 90] [--tokens 128] [--threads 1] [--out FOLDER]

For each sparsity: how near the pruned model's embeddings are to the dense model's, how near spjit's
are to those of PyTorch, a table of the layers, and minilm-SPARSITY.svg, a picture of it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import minilm
import torch

import spjit.torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from picture import picture  # noqa: E402

SENTENCES = [
    "A man is eating food.", "Someone is having a meal.", "The stock market fell today.",
    "Shares lost value on Tuesday.", "Two dogs run across a field of tall grass.",
    "Puppies are chasing each other outdoors.", "She opened the letter with trembling hands.",
    "The recipe needs three eggs and a cup of flour.", "Mix the flour with the eggs first.",
    "The train to the coast leaves at half past nine.",
]


def cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Of embeddings of length 1, row by row."""
    return (first * second).sum(1)


def show(sparsity: int, arguments: argparse.Namespace, of_dense: torch.Tensor) -> None:
    model = minilm.load(sparsity)
    ids, mask = minilm.tokens_of(SENTENCES)
    with torch.no_grad():
        of_pruned = model(ids, mask)
    example = torch.randint(1000, 20000, (1, arguments.tokens))
    report = spjit.torch.optimize_(model, (example,))
    with torch.no_grad():  # else layers run dense
        of_spjit = model(ids, mask)

    near = cosines(of_pruned, of_dense)
    same = cosines(of_spjit, of_pruned)
    layers = sum(row.kind == "Linear" for row in report.rows)
    print(f"\n{sparsity} % zeros in {layers} layers, one sentence of {arguments.tokens} "
          f"tokens, threads={arguments.threads}\n\n{report}\n")
    print(f"cosine of pruned and dense embeddings: mean={near.mean():.3f} least={near.min():.3f}")
    print(f"cosine of spjit's and PyTorch's, both pruned: least={same.min():.7f}")
    file = arguments.out / f"minilm-{sparsity}.svg"
    title = (f"MiniLM-L6, {sparsity} % zeros, {arguments.tokens} tokens, "
             f"{arguments.threads} thread(s)")
    file.write_text(picture(report, title), encoding="utf-8")
    print(f"wrote {file}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sparsity", type=int, nargs="+", default=[80, 90])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path())
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    with torch.no_grad():
        of_dense = minilm.load()(*minilm.tokens_of(SENTENCES))
    for sparsity in arguments.sparsity:
        show(sparsity, arguments, of_dense)


if __name__ == "__main__":
    main()
