"""Small models of many families, to be captured with checkpointing."""

from __future__ import annotations

from functools import partial
from typing import Any

from experiments.capture_inductor import branching, pyramids
from experiments.capture_inductor import irregular as net
from experiments.capture_inductor.attention import CAUSAL, Language, language
from experiments.capture_inductor.convolutional import on_images
from optsched.plugins.inductor.capture import Build

_WIDE = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
_BART = {
    "d_model": 256,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 1024,
    "decoder_ffn_dim": 1024,
    "max_position_embeddings": 512,
}
_T5 = {
    "d_model": 256,
    "d_kv": 64,
    "d_ff": 1024,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_EXPERTS = {"experts_implementation": "batched_mm", "num_key_value_heads": 2, "head_dim": 64}


def sized(family: str, head: str, length: int = 256, **settings: Any) -> Language:
    """Build a decoder or encoder of three layers, with further settings."""
    return language(family, head, 4, length, CAUSAL, **(_WIDE | settings))


def encoder_decoder(family: str, head: str, **settings: Any) -> Language:
    """Build an encoder and a decoder of two layers each."""
    return language(family, head, 4, 256, CAUSAL, **settings)


def _experts(family: str, **settings: Any) -> Language:
    return sized(family, f"{family}ForCausalLM", 128, **(_EXPERTS | settings))


_images = partial(on_images, batch=16, side=128)

ENCODER_DECODERS: dict[str, Language] = {
    "bart": encoder_decoder("Bart", "BartForConditionalGeneration", **_BART),
    "pegasus": encoder_decoder("Pegasus", "PegasusForConditionalGeneration", **_BART),
    "mbart": encoder_decoder("MBart", "MBartForConditionalGeneration", **_BART),
    "marian": encoder_decoder("Marian", "MarianMTModel", **_BART, pad_token_id=0),
    "blenderbot": encoder_decoder(
        "BlenderbotSmall", "BlenderbotSmallForConditionalGeneration", **_BART
    ),
    "t5_gated": encoder_decoder(
        "T5", "T5ForConditionalGeneration", **_T5, feed_forward_proj="gated-gelu"
    ),
    "plbart": encoder_decoder("PLBart", "PLBartForConditionalGeneration", **_BART),
    "umt5": encoder_decoder("UMT5", "UMT5ForConditionalGeneration", **_T5),
}

STATE_SPACE: dict[str, Language] = {
    "mamba": sized("Mamba", "MambaForCausalLM", 16, num_hidden_layers=3),
    "falcon_mamba": sized("FalconMamba", "FalconMambaForCausalLM", 16, num_hidden_layers=2),
    "mamba2": sized(
        "Mamba2", "Mamba2ForCausalLM", num_hidden_layers=3, num_heads=8, head_dim=64, chunk_size=64
    ),
    "jamba": sized(
        "Jamba", "JambaForCausalLM", 16, num_key_value_heads=2, attn_layer_period=2,
        attn_layer_offset=1, num_experts=1, num_experts_per_tok=1, use_mamba_kernels=False,
    ),
    "bamba": sized(
        "Bamba", "BambaForCausalLM", num_key_value_heads=2, attn_layer_indices=[1],
        mamba_n_heads=8, mamba_d_head=64, mamba_chunk_size=64, mamba_n_groups=1,
    ),
    "zamba2": sized(
        "Zamba2", "Zamba2ForCausalLM", 128, num_key_value_heads=4, mamba_ngroups=1,
        n_mamba_heads=8, chunk_size=64, use_mamba_kernels=False,
        layers_block_type=["mamba", "hybrid", "mamba"], hybrid_layer_ids=[1],
    ),
    "lfm2": sized(
        "Lfm2", "Lfm2ForCausalLM", num_key_value_heads=2,
        layer_types=["conv", "full_attention", "conv"],
    ),
    "falcon_h1": sized(
        "FalconH1", "FalconH1ForCausalLM", 128, num_key_value_heads=2, mamba_d_ssm=512,
        mamba_n_heads=8, mamba_d_head=64, mamba_n_groups=1, mamba_chunk_size=64,
    ),
}  # fmt: skip

EXPERTS: dict[str, Language] = {
    "mixtral": _experts("Mixtral", num_local_experts=4),
    "qwen2_moe": _experts(
        "Qwen2Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=256,
        shared_expert_intermediate_size=512,
    ),
    "qwen3_moe": _experts(
        "Qwen3Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=256
    ),
    "olmoe": _experts("Olmoe", num_experts=4, num_experts_per_tok=2),
    "gpt_oss": _experts("GptOss", num_local_experts=4, num_experts_per_tok=2),
    "deepseek_v3": _experts(
        "DeepseekV3", n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1,
        moe_intermediate_size=256, q_lora_rank=64, kv_lora_rank=64, qk_rope_head_dim=32,
        qk_nope_head_dim=32, v_head_dim=64, num_key_value_heads=4, first_k_dense_replace=1,
        head_dim=32,
    ),
}  # fmt: skip

OTHERS: dict[str, Language] = {
    "qwen2": sized("Qwen2", "Qwen2ForCausalLM", num_key_value_heads=2),
    "gpt_neox": sized("GPTNeoX", "GPTNeoXForCausalLM"),
    "gemma2": sized("Gemma2", "Gemma2ForCausalLM", num_key_value_heads=2, head_dim=64),
    "conv_bert": sized("ConvBert", "ConvBertForMaskedLM", embedding_size=128),
    "funnel": language(
        "Funnel", "FunnelForMaskedLM", 4, 256, CAUSAL, d_model=256, n_head=4, d_head=64,
        d_inner=1024, block_sizes=[2, 2], num_decoder_layers=1,
    ),
    "xlnet": language(
        "XLNet", "XLNetLMHeadModel", 4, 128, CAUSAL, d_model=256, n_layer=3, n_head=4,
        d_inner=1024,
    ),
}  # fmt: skip

CONVOLUTIONAL: dict[str, Build] = {
    "randwire": _images(net.randwire),
    "nasnet": _images(net.nasnet),
    "hrnet": _images(pyramids.hrnet),
    "bifpn": _images(pyramids.bifpn),
    "unet_nested": _images(pyramids.unet_nested),
    "hourglass": _images(pyramids.hourglass),
    "fractalnet": _images(net.fractalnet),
    "dla": _images(net.dla),
    "dual_path": _images(net.dual_path),
    "res2net": _images(net.res2net),
    "darts": _images(branching.darts),
    "vovnet": _images(branching.vovnet),
    "cspnet": _images(branching.cspnet),
    "densenet": _images(branching.densenet),
    "inception_resnet": _images(branching.inception_resnet),
    "efficientnet": _images(branching.efficientnet),
    "sknet": _images(branching.sknet),
    "shufflenet": _images(branching.shufflenet),
    "nfnet": _images(branching.nfnet),
}

LANGUAGE = ENCODER_DECODERS | STATE_SPACE | EXPERTS | OTHERS

FEW_WORDS: dict[str, Build] = {
    f"{name}_words2k": build.with_settings(vocab_size=2048)
    for name, build in LANGUAGE.items()
    # Their token ids of special meaning lie beyond.
    if name not in ("marian", "xlnet")
}
"""Models with a small vocabulary. Scores of many words are most of the bytes that a model keeps for
the backward pass: then budgets of 0.3 and 0.5 recompute the same."""

FAMILIES: dict[str, Build] = {**LANGUAGE, **FEW_WORDS, **CONVOLUTIONAL}
"""Models by name."""
