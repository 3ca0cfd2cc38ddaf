"""The models of the study by name; the name of a shipped one ends in the batch size."""

from __future__ import annotations

from experiments.capture_inductor import convolutional as cnn
from experiments.capture_inductor.attention import ANSWER, CAUSAL, language
from experiments.capture_inductor.families import FAMILIES
from experiments.capture_inductor.recurrent import lstm
from optsched.plugins.inductor.capture import Build

_DEBERTA_V2 = {
    "relative_attention": True,
    "max_relative_positions": -1,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "layer_norm_eps": 1e-7,
    "position_biased_input": False,
    "conv_kernel_size": 3,
    "conv_act": "gelu",
}
"""Settings of the published checkpoints that differ from the default configuration."""

SHIPPED: dict[str, Build] = {
    "alexnet_bs128": cnn.on_images(cnn.alexnet, 128),
    "vgg16_bs64": cnn.on_images(cnn.vgg16, 64),
    "resnet50_bs32": cnn.on_images(cnn.resnet50, 32),
    "mobilenet_v2_bs96": cnn.on_images(cnn.mobilenet_v2, 96),
    "googlenet_bs64": cnn.on_images(cnn.googlenet, 64),
    "unet_bs4": cnn.unet(4),
    "lstm_t35_bs20": lstm(20, steps=35),
    "albert_mlm_bs4": language("Albert", "AlbertForMaskedLM", 4, 512, CAUSAL),
    "albert_qa_bs4": language("Albert", "AlbertForQuestionAnswering", 4, 512, ANSWER),
    "mobilebert_qa_bs128": language(
        "MobileBert", "MobileBertForQuestionAnswering", 128, 128, ANSWER
    ),
    "debertav2_qa_bs1": language(
        "DebertaV2", "DebertaV2ForQuestionAnswering", 1, 512, ANSWER, **_DEBERTA_V2
    ),
    "t5_small_bs4": language(
        "T5", "T5ForConditionalGeneration", 4, 1024, CAUSAL, decoder_start_token_id=0
    ),
    "gpt2_bs4": language("GPT2", "GPT2LMHeadModel", 4, 1024, CAUSAL),
    "llama_2l_bs1": language("Llama", "LlamaForCausalLM", 1, 2048, CAUSAL, num_hidden_layers=2),
}
"""Models captured in full, training and inference; `instances/inductor` has all their graphs."""

DEEP: dict[str, Build] = {
    "debertav2_default_qa_bs1": language(
        "DebertaV2", "DebertaV2ForQuestionAnswering", 1, 512, ANSWER
    )
}
"""Models with only the backward graph of the imagined GPU shipped, which needs a search."""

MODELS = SHIPPED | FAMILIES | DEEP
"""All models."""
