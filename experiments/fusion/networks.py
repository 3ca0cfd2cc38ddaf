"""Networks whose training graphs are cut, captured with an activation memory budget of 0.5.

    python -m experiments.fusion.networks FOLDER [NAME ..]

writes the captures of all networks, or of those named. Names that end in `_gpu` are lowered for the
imagined GPU of `experiments/capture_inductor`, the others for the CPU. Transformers of the package
`transformers` have random weights, default settings and fewer layers.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.nn import functional as F  # noqa: N812

from experiments.capture_inductor.attention import ANSWER, CAUSAL, language
from experiments.capture_inductor.convolutional import on_images
from experiments.capture_inductor.models import MODELS
from experiments.runtimes.inductor.networks import EncoderBlock
from optsched.plugins.inductor.capture import Build, Built, capture, write

BUDGET = 0.5


class Vit(nn.Module):
    """A vision transformer: patches, blocks, and a mean over patches."""

    def __init__(self, layers: int, width: int, heads: int, side: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        self.places = nn.Parameter(torch.zeros(1, (side // 16) ** 2, width))
        self.blocks = nn.ModuleList(EncoderBlock(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch."""
        x = self.patches(images).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(x.mean(1)), targets)


def vit(batch: int, layers: int, width: int, heads: int, side: int = 224) -> Build:
    """Return the maker of a vision transformer and a batch of images."""

    def build() -> Built:
        images = torch.rand(batch, 3, side, side)
        return Vit(layers, width, heads, side), (images, torch.randint(0, 1000, (batch,))), {}

    return build


def timm_network(name: str, batch: int, **more: int) -> Build:
    """Return the maker of a network of the package timm and a batch of images."""

    def make() -> nn.Module:
        import timm

        # Weights are drawn by functions that fake tensors do not have.
        with unset_fake_temporarily():
            network: nn.Module = timm.create_model(name, **more)
        return network._apply(lambda x: torch.empty(x.shape, dtype=x.dtype))

    return on_images(make, batch)


_BERT = language("Bert", "BertForMaskedLM", 8, 512, CAUSAL, num_hidden_layers=4)
_ALBERT = language("Albert", "AlbertForMaskedLM", 4, 512, CAUSAL, num_hidden_layers=6)
_T5 = language(
    "T5", "T5ForConditionalGeneration", 4, 512, CAUSAL, decoder_start_token_id=0, num_layers=3
)

NETWORKS: dict[str, Build] = {
    "albert_6l": _ALBERT,
    "albert_6l_gpu": _ALBERT,
    "gpt2_4l": language("GPT2", "GPT2LMHeadModel", 4, 1024, CAUSAL, n_layer=4),
    "t5_3l": _T5,
    "t5_3l_gpu": _T5,
    "vit_6l_gpu": vit(32, 6, 384, 6),
    "densenet_gpu": MODELS["densenet"],
    "bert_4l_gpu": _BERT,
    "mobilebert_6l_gpu": language(
        "MobileBert", "MobileBertForQuestionAnswering", 32, 128, ANSWER, num_hidden_layers=6
    ),
    "llama_2l_gpu": MODELS["llama_2l_bs1"],
    **{
        f"{name}_gpu": MODELS[name]
        for name in (
            "bart",
            "mixtral",
            "qwen2",
            "gpt_neox",
            "gemma2",
            "conv_bert",
            "efficientnet",
            "randwire",
            "hrnet",
            "vovnet",
            "res2net",
            "nfnet",
        )
    },
    "densenet121_gpu": timm_network("densenet121", 16),
    "vit_4l_gpu": timm_network("vit_small_patch16_224", 32, depth=4),
    "convnext_gpu": timm_network("convnext_atto", 32),
    "unet": MODELS["unet_bs4"],
    "resnet50": MODELS["resnet50_bs32"],
}


def write_captures(folder: Path, name: str) -> list[str]:
    """Capture the forward and backward graph of a network; return the names of the files."""
    gpu = name.endswith("_gpu")
    # With one thread Inductor makes other choices, with two or more the same ones.
    torch.set_num_threads(2)
    graphs = capture(
        NETWORKS[name],
        phase="train",
        activation_memory_budget=BUDGET,
        fake_cuda=gpu,
        model=name,
        parts=True,
    )
    for graph in graphs:
        write(folder / graph.file_name, graph)
    return [graph.file_name for graph in graphs]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.fusion.networks")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or NETWORKS:
        start = time.process_time()
        files = write_captures(options.folder, name)
        print(f"{name}: {', '.join(files)}, {time.process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
