"""Take a .tflite file to a smaller arena: plan, apply, export. Needs the extra `tflite`."""

from optsched import apply_plan, export_plan, read_graph, solve, write_plan

model = "instances/tflite/inception.tflite"
graph = read_graph(model)
result = solve(graph, time_limit=20)
print(f"arena {result.slab:,} bytes, at least {result.slab_bound:,} in any plan")

write_plan(result, "plan.json")
apply_plan(model, "plan.json", "planned.tflite")  # the file to flash
export_plan("plan.json", "arena.h", to="c-header", graph=graph)  # or offsets for your own code
