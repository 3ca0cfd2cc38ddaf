"""Choose offsets for live ranges that are known already."""

from heuristics import PACKINGS
from optsched import PackingProblem, check_packing, pack

problem = PackingProblem(
    names=["query", "key", "scores", "value", "out"],
    size=[512, 512, 1024, 512, 512],
    start=[0, 0, 1, 2, 3],
    end=[2, 2, 4, 5, 6],  # live in steps start to end - 1
    alignment=[64] * 5,
)
best = pack(problem, time_limit=10)
print("slab", best.slab, best.slab_proof)
for name, offset in zip(problem.names, best.offsets, strict=True):
    print(f"{offset:5} {name}")

for method in ("naive", "greedy_by_size", "first_fit_start"):
    print(method, check_packing(problem, PACKINGS[method](problem)))
