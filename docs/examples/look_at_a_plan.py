# %% [markdown]
# # Look at a plan
#
# Plan the backward pass of AlexNet and see what its memory is used for.

# %%
from optsched import example, explain, peak_memory, solve, timeline

graph = example("alexnet")  # comes with the package, so this runs in any folder
result = solve(graph, work=1_000_000)  # units of work: the same plan on every machine
print(result.status, f"{result.peak:,} bytes, at least {result.peak_bound:,}")

# %% [markdown]
# How many bytes are live in each step? The fullest steps decide.

# %%
live = timeline(result).running
for step, count in enumerate(live):
    if count > 0.9 * max(live):
        print(f"{step:3} {result.order[step]:16} {'#' * int(40 * count / max(live))}")

# %% [markdown]
# What is saved against the order that Inductor chose, and against the order in which the program
# was captured?

# %%
print(result.summary().splitlines()[0])
captured = peak_memory(graph, range(len(graph.ops)))
print(f"{captured:,} bytes in the captured order")

# %% [markdown]
# Which buffers are live at the peak, and why does no order need less?

# %%
for line in str(explain(result)).splitlines()[:8]:
    print(line)

# %% [markdown]
# The last value of a cell is shown: for a result its saving, verdict and slab. `result.plot()` is a
# picture, and `result.save("plan.html")` writes a page.

# %%
result
