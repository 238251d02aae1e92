"""BERT-base and ResNet-50 on a GPU, pruned, in fp32: dense PyTorch and spjit.

    python examples/bert_gpu/bert_gpu.py [--networks bert resnet50] [--sparsity 90] [--tokens 128]
                                         [--weights FOLDER] [--device cuda:0] [--out FOLDER]

For each network: a table of its layers, how near outputs are, and NETWORK-SPARSITY.svg, a picture
of the table. Then a table of the networks: passes of the model as PyTorch calls it, and as one CUDA
graph. Times are of events, cold: each layer is as the others leave it. BERT-base needs the package
transformers. Weights are drawn at random, unless --weights names a folder that `save_pretrained`
wrote. All layers of ResNet-50 but the first, and those of BERT-base, are pruned by magnitude.

--device cpu: in PyTorch's threads, without graphs. --tiny: small networks, to see that all works.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from resnet50 import ResNet50
from torch import Tensor, nn
from torch.nn.utils import prune

import spjit.torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "shared"))
from picture import picture  # noqa: E402

ROUNDS, CALLS = 30, 100


def bert(arguments: argparse.Namespace) -> tuple[nn.Module, Tensor]:
    try:
        from transformers import BertConfig, BertModel
    except ImportError:
        raise SystemExit("the package transformers is not installed: pip install transformers, or "
                         "--networks resnet50") from None
    if arguments.weights is not None:
        model = BertModel.from_pretrained(arguments.weights)
    else:
        small = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
                 "intermediate_size": 96, "vocab_size": 1000}
        model = BertModel(BertConfig(**(small if arguments.tiny else {})))
    words = model.config.vocab_size
    return model, torch.randint(words, (arguments.batch, arguments.tokens))


def resnet50(arguments: argparse.Namespace) -> tuple[nn.Module, Tensor]:
    model = ResNet50(8, (1, 1)) if arguments.tiny else ResNet50()
    return model, torch.randn(arguments.batch, 3, *2 * [32 if arguments.tiny else 224])


NETWORKS: dict[str, Callable[[argparse.Namespace], tuple[nn.Module, Tensor]]] = {
    "bert": bert, "resnet50": resnet50}


def pruned(model: nn.Module, sparsity: int) -> nn.Module:
    """By magnitude, layer by layer; but layers of images of three channels."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear) or (isinstance(layer, nn.Conv2d) and layer.in_channels > 3):
            prune.l1_unstructured(layer, "weight", amount=sparsity / 100)
            prune.remove(layer, "weight")
    return model.eval()


def output_of(y: Any) -> Tensor:
    return y if isinstance(y, Tensor) else y.last_hidden_state


def graph_of(model: nn.Module, example: Tensor) -> torch.cuda.CUDAGraph:
    """Of a pass. All kernels are there after the passes before."""
    side = torch.cuda.Stream(example.device)
    side.wait_stream(torch.cuda.current_stream(example.device))
    with torch.cuda.stream(side):
        for _ in range(3):
            model(example)
    torch.cuda.current_stream(example.device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(example)
    return graph


def graph_times(models: list[nn.Module], example: Tensor) -> list[float]:
    """us of passes as one graph each, in turn; the median."""
    graphs = [graph_of(model, example) for model in models]
    times: list[list[float]] = [[] for _ in graphs]
    for _ in range(ROUNDS):
        for graph, of_graph in zip(graphs, times):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize(example.device)
            of_graph.append(begin.elapsed_time(end) * 1e3)
    return [statistics.median(each) for each in times]


def call_us(layer: nn.Module, example: Tensor) -> float:
    """Of the CPU: what a call takes that waits for nothing; the median of ROUNDS."""
    times = []
    for _ in range(ROUNDS):
        if example.is_cuda:
            torch.cuda.synchronize(example.device)
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            layer(example)
        times.append((time.perf_counter_ns() - begin) * 1e-3 / CALLS)
    return statistics.median(times)


def cost_of_calls(dense: nn.Module, model: nn.Module, report: Any, example: Tensor) -> list[float]:
    """us of the CPU of a call of the first sparse Linear, one token, dense and sparse; [] if there
    is none."""
    names = [row.layer.split(", ")[0] for row in report.sparse if row.kind == "Linear"]
    if not names:
        return []
    layers = [network.get_submodule(names[0]) for network in (dense, model)]
    token = torch.randn(1, layers[0].in_features, device=example.device)
    return [call_us(layer, token) for layer in layers]


def show(name: str, sparsity: int, arguments: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(1)
    model, example = NETWORKS[name](arguments)
    model, example = pruned(model, sparsity).to(arguments.device), example.to(arguments.device)
    dense = copy.deepcopy(model)
    report = spjit.torch.optimize_(model, (example,), budget=arguments.seconds)
    with torch.inference_mode():  # else layers run dense
        before, after = output_of(dense(example)), output_of(model(example))
        is_on_gpu = example.is_cuda
        graphs = graph_times([dense, model], example) if is_on_gpu else [None, None]
        calls = cost_of_calls(dense, model, report, example) if is_on_gpu else []
    error = float((after - before).abs().max() / before.abs().max())
    print(f"\n{name}, {sparsity} % zeros, input {list(example.shape)}\n\n{report}\n")
    file = arguments.out / f"{name}-{sparsity}.svg"
    file.write_text(picture(report, f"{name}, {sparsity} % zeros, {arguments.device}"),
                    encoding="utf-8")
    print(f"wrote {file}")
    if calls:
        print(f"a call of a Linear, us of the CPU, hot: dense={calls[0]:.1f} spjit={calls[1]:.1f}")
    return {"network": name, "zeros": sparsity, "input": list(example.shape),
            "device": report.gpus or f"cpu, threads={report.threads}",
            "torch": torch.__version__, "sparse_layers": len(report.sparse),
            "dense_us": report.before_us, "spjit_us": report.after_us, "dense_graph_us": graphs[0],
            "spjit_graph_us": graphs[1], "call_cpu_us": calls, "error": error,
            "layers": json.loads(report.to_json())["rows"]}


def table(results: list[dict[str, Any]]) -> str:
    def us(value: float | None) -> str:
        return "-" if value is None else f"{value:.0f}"

    lines = ["| network | zeros | sparse layers | dense, us | spjit, us | dense graph, us | "
             "spjit graph, us | error |", "|---" * 8 + "|"]
    lines += [f"| {one['network']} | {one['zeros']} % | {one['sparse_layers']} | "
              f"{us(one['dense_us'])} | {us(one['spjit_us'])} | {us(one['dense_graph_us'])} | "
              f"{us(one['spjit_graph_us'])} | {one['error']:.1e} |" for one in results]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--sparsity", type=int, nargs="+", default=[90])
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--weights", help="of BERT-base: a folder of transformers")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=0.5, help="of each comparison")
    parser.add_argument("--tf32", action="store_true", help="dense convolutions may use TF32")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", type=Path, help="a file that gets a line for each network")
    parser.add_argument("--out", type=Path, default=Path())
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.allow_tf32 = arguments.tf32
    results = []
    for name in arguments.networks:
        for sparsity in arguments.sparsity:
            results.append(show(name, sparsity, arguments))
            if arguments.json is not None:
                with arguments.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    print(f"\n{table(results)}")


if __name__ == "__main__":
    main()
