"""Training steps of models from transformers and timm, compiled with `backend="optsched"`.

`python -m experiments.runtimes.inductor.foreign [MODEL...] > foreign.csv` compiles each model twice
on the CPU, by Inductor and by the plugin, and measures the bytes of each call of a graph. The
models are small forms of the published ones with random weights. Kernels do nothing, as memory does
not depend on what they compute.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch._inductor import config

from experiments.tables import markdown
from optsched import plugins
from optsched.plugins.inductor import backend
from tests.support.compiled_memory import NO_CACHE, measure_calls, no_kernels

WORDS, LENGTH, BATCH = 200, 32, 2


@dataclass(frozen=True)
class ForeignRow:
    """A compiled graph of a model; bytes."""

    model: str
    package: str
    graph: str
    nodes: int
    planned_own: int
    planned: int
    """`planned_own` and `planned`: in Inductor's order and in ours; -1 if the graph was left to
    Inductor."""
    rise_own: int
    rise: int
    """`rise_own` and `rise`: measured: by how much live bytes rise within a call, compiled by
    Inductor and by us."""
    order: str
    seconds: float


def _language(kind: str, **more: Any) -> Callable[[], tuple[Any, dict[str, Any]]]:
    def build() -> tuple[Any, dict[str, Any]]:
        import transformers

        sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
        sizes |= {"intermediate_size": 128, "vocab_size": WORDS, "max_position_embeddings": 64}
        settings = getattr(transformers, f"{kind}Config")(**{**sizes, **more.get("config", {})})
        # A cache of keys is for generation; in training it would only add outputs.
        settings.use_cache = False
        model = getattr(transformers, f"{kind}{more.get('head', 'ForCausalLM')}")(settings)
        # Numbers below 5 are special in some vocabularies, such as padding.
        tokens = torch.randint(5, WORDS, (BATCH, LENGTH))
        return model, {"input_ids": tokens, "labels": tokens}

    return build


def _image(name: str, side: int = 64, **more: Any) -> Callable[[], tuple[Any, dict[str, Any]]]:
    def build() -> tuple[Any, dict[str, Any]]:
        import timm

        model = timm.create_model(name, num_classes=10, **more)
        return model, {"x": torch.randn(BATCH, 3, side, side)}

    return build


MASKED = "ForMaskedLM"
T5 = {"d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 2, "num_heads": 4}
T5 |= {"decoder_start_token_id": 0}
BART = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 128}
BART |= {"decoder_ffn_dim": 128, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
NEO = {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 4}
DISTIL = {"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128}
NEO |= {"intermediate_size": 128}
TRANSFORMERS: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "bert": _language("Bert", head=MASKED),
    "albert": _language("Albert", head=MASKED, config={"embedding_size": 32}),
    "electra": _language("Electra", head=MASKED, config={"embedding_size": 32}),
    "roberta": _language("Roberta", head=MASKED),
    "deberta_v2": _language("DebertaV2", head=MASKED),
    "distilbert": _language(
        "DistilBert",
        head=MASKED,
        config={"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128},
    ),
    "gpt2": _language("GPT2", head="LMHeadModel", config={"n_embd": 64, "n_layer": 2, "n_head": 4}),
    "opt": _language("OPT", config={"ffn_dim": 128, "word_embed_proj_dim": 64}),
    "gpt_neo": _language("GPTNeo", config=NEO),
    "t5": _language("T5", head="ForConditionalGeneration", config=T5),
    "bart": _language("Bart", head="ForConditionalGeneration", config=BART),
    "llama": _language("Llama", config={"num_key_value_heads": 2}),
    "mistral": _language("Mistral", config={"num_key_value_heads": 2}),
    "qwen2": _language("Qwen2", config={"num_key_value_heads": 2}),
}
TIMM: dict[str, Callable[[], tuple[Any, dict[str, Any]]]] = {
    "resnet18": _image("resnet18"),
    "mobilenetv3": _image("mobilenetv3_small_050"),
    "convnext": _image("convnext_atto"),
    "vit": _image("vit_tiny_patch16_224", img_size=64, depth=2),
    "mixer": _image("mixer_s32_224", img_size=64),
    "efficientnet": _image("efficientnet_b0"),
}
MODELS = {**TRANSFORMERS, **TIMM}


def _step(name: str, compiler: Any) -> Callable[[], None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    compiled = torch.compile(model, **compiler)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        found = compiled(**inputs)
        loss = found.square().mean() if isinstance(found, torch.Tensor) else found.loss
        loss.backward()

    step()
    return step


def measure_model(name: str, seconds: float) -> Iterator[ForeignRow]:
    """Compile and run a model's step by Inductor and by us; yield a row for each graph."""
    start = time.process_time()
    with no_kernels(), config.patch(NO_CACHE):
        theirs = measure_calls(_step(name, {}))
        # Records of an earlier model would be matched with this one's calls.
        plugins.forget()
        chosen = {"time_limit": seconds, "min_gain": 0}
        ours = measure_calls(_step(name, {"backend": backend.compile_graph, "options": chosen}))
    taken = time.process_time() - start
    # Graphs are compiled in the order of their first calls.
    for record, own, our in zip(plugins.records(), theirs, ours, strict=True):
        yield ForeignRow(
            model=name,
            package="transformers" if name in TRANSFORMERS else "timm",
            graph=record.name,
            nodes=record.ops,
            planned_own=-1 if record.before is None else record.before,
            planned=-1 if record.planned is None else record.planned,
            rise_own=own.peak,
            rise=our.peak,
            order=record.order or record.reason,
            seconds=round(taken, 1),
        )


def foreign_table(rows: Sequence[ForeignRow]) -> str:
    """Return a line per model, over its graphs."""
    head = ["model", "package", "graphs", "nodes", "forward, Inductor", "ours"]
    head += ["backward, Inductor", "ours", "lower, %", "as planned"]
    names = dict.fromkeys(row.model for row in rows)
    return markdown(head, (_line([row for row in rows if row.model == name]) for name in names))


def _line(rows: Sequence[ForeignRow]) -> list[str]:
    forward, backward = (_rise(rows, phase) for phase in ("forward", "backward"))
    planned = [row for row in rows if row.planned >= 0]
    # What a graph owns at its call counts in the plan and is the same in both orders.
    equal = [r for r in planned if r.rise_own - r.rise == r.planned_own - r.planned]
    return [
        rows[0].model,
        rows[0].package,
        str(len(rows)),
        str(sum(row.nodes for row in rows)),
        *(f"{bytes_:,}" for bytes_ in (*forward, *backward)),
        f"{100 * (backward[0] - backward[1]) / max(1, backward[0]):.1f}",
        f"{len(equal)} of {len(rows)}",
    ]


def _rise(rows: Sequence[ForeignRow], phase: str) -> tuple[int, int]:
    """Return by how much live bytes rise in the graphs of a phase, by Inductor and by us."""
    found = [row for row in rows if row.graph.endswith(phase)]
    return max(row.rise_own for row in found), max(row.rise for row in found)


def main() -> None:
    """Measure models; exit with 1 if one fails or needs more than Inductor's."""
    parser = argparse.ArgumentParser(prog="experiments.runtimes.inductor.foreign")
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--seconds", type=float, default=2.0, help="for the solver, per graph")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(MODELS):
        parser.error(f"no model {min(unknown)!r}; there are {', '.join(MODELS)}")
    warnings.filterwarnings("ignore")
    # Threads would allocate scratch of their own, at times that differ.
    torch.set_num_threads(1)
    writer = csv.DictWriter(sys.stdout, [field.name for field in fields(ForeignRow)])
    writer.writeheader()
    wrong = False
    for name in chosen.names or MODELS:
        try:
            for row in measure_model(name, chosen.seconds):
                # Row by row, so that an interrupted run keeps what it measured.
                writer.writerow(asdict(row))
                wrong |= row.rise > row.rise_own
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[:1]}", file=sys.stderr)
            wrong = True
        sys.stdout.flush()
    sys.exit(wrong)


if __name__ == "__main__":
    main()
