"""Measure a heuristic of your own beside LPMF on real graphs."""

from optsched import compare_methods, example, register_ordering


@register_ordering
def last_written_first(graph, seed):
    """Run a reader of the buffer that was written last, as a stack machine does."""
    done, order, ready = set(), [], []
    for v, before in enumerate(graph.predecessors):
        if not before:
            ready.append(v)
    while ready:
        v = ready.pop()
        order.append(v)
        done.add(v)
        for w, before in enumerate(graph.predecessors):
            if v in before and done.issuperset(before):
                ready.append(w)
    return order


for name in ("alexnet_bs128.bwd", "llama_2l_bs1.bwd", "unet_bs4.infer"):
    compared = compare_methods(example(name), methods=["last_written_first", "lpmf"], time_limit=20)
    mine, lpmf = compared.row("last_written_first"), compared.row("lpmf")
    print(f"{name:20} {mine.excess:8.1%} above the optimum, lpmf {lpmf.excess:8.1%}")
