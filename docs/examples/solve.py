"""Plan a graph: order and offsets of least slab, and the reason why no order needs less."""

from optsched import GraphBuilder, check_plan, explain, solve

build = GraphBuilder("branches")
build.input("x", 1024)  # bytes
for i in range(3):
    build.op(f"up{i}", reads=["x"], writes={f"wide{i}": 4096})
for i in range(3):
    build.op(f"down{i}", reads=[f"wide{i}"], writes={f"narrow{i}": 256})
build.op("join", reads=[f"narrow{i}" for i in range(3)], writes={"y": 256})
build.output("y")
graph = build.build()

result = solve(graph, time_limit=10)
print(result.status, "peak", result.peak, "slab", result.slab)
print("order:", " ".join(result.order))
for name, offset in sorted(result.offsets.items(), key=lambda item: item[1])[:3]:
    print(f"{offset:6} {name}")

check_plan(graph, result.plan)  # raises if the plan is wrong
print(str(explain(graph)).splitlines()[0])
