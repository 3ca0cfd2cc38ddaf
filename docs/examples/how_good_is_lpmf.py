# %% [markdown]
# # How good is LPMF?
#
# LPMF runs the op that leaves the fewest live bytes. Measure it against the proved optimum.

# %%
from optsched import compare_methods, example, hunt

names = [
    *("alexnet_bs128.bwd", "alexnet_bs128.fwd", "alexnet_bs128.infer", "llama_2l_bs1.bwd"),
    *("llama_2l_bs1.fwd", "llama_2l_bs1.infer", "mobilenet_v2_bs96.infer", "unet_bs4.infer"),
    *("vgg16_bs64.bwd", "vgg16_bs64.fwd", "vgg16_bs64.infer"),
]
rows = {
    name: compare_methods(example(name), methods=["lpmf", "dfs"], time_limit=30) for name in names
}

# %%
for name, compared in rows.items():
    lpmf, dfs = compared.row("lpmf"), compared.row("dfs")
    print(f"{name:24} lpmf {lpmf.excess:7.2%}   dfs {dfs.excess:7.2%}")

# %% [markdown]
# Neither is always better. On how many graphs is LPMF optimal?

# %%
exact = [name for name, compared in rows.items() if compared.row("lpmf").excess == 0]
print(len(exact), "of", len(rows))

# %% [markdown]
# A small graph on which it needs more than twice the memory, found by a hunt:

# %%
found = hunt("lpmf", max_ops=5, max_bytes=9, max_tries=3000, seed=1)
print(repr(found))

# %% [markdown]
# The method's plan beside the better one:

# %%
found
