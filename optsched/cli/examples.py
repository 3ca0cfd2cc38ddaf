"""Examples that the help of each command ends with; a test parses all of them."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "solve": (
        "model.tflite -o plan.json",
        "graph.json --capacity 256KiB --time-limit 600",
        "model.onnx --dim batch=1 --dim sequence=128",
    ),
    "compare": (
        "model.tflite",
        "graphs/ --jobs 4 --report page.html --csv rows.csv",
        "graph.json --methods lpmf,greedy_by_size,optsched:60",
    ),
    "tune": (
        "graphs/ --store plans.store --budget 2h --jobs 8",
        "graphs/ --store plans.store --work 100000 --csv rows.csv",
        "graphs/ --store plans.store --budget 1h --diff plans.store",
    ),
    "check": (
        "graph.json plan.json",
        "graph.json plan.json proof.json",
        "packing.csv --replay",
    ),
    "explain": (
        "graph.json",
        "model.onnx --time-limit 10",
        "step.json --peak 8GiB",
    ),
    "hunt": (
        "--method lpmf -o worst.json",
        "--method greedy_by_size --max-ops 8 -o worst.csv",
        "--method lpmf --from graph.json --at-least 1.1 -o small.json",
    ),
    "report": (
        "model.tflite -o page.html",
        "model.tflite tflm+tflm_greedy --best -o both.html",
        "graph.json plan.json --png plan.png --trace plan.trace",
    ),
    "info": (
        "model.onnx",
        "model.onnx --dim batch=1",
        "graph.json --json",
    ),
    "convert": (
        "model.tflite -o graph.json.gz",
        "model.onnx --to onnx-fused -o fused.onnx",
        "graph.json --to inductor -o nodes.json",
    ),
    "apply": (
        "model.tflite plan.json -o planned.tflite",
        "model.onnx plan.json -o planned.onnx",
        "model.onnx plan.json --profile profile.json -o planned.onnx",
    ),
    "measure": (
        "model.tflite",
        "model.onnx plan.json",
        "program.pt2 --runtime executorch",
    ),
    "export": (
        "plan.json --to csv",
        "plan.json graph.json --to c-header -o plan.h",
        "plan.json graph.json --to minimalloc -o plan.csv",
    ),
    "pack": (
        "buffers.csv -o packed.csv",
        "buffers.csv --capacity 1MiB --time-limit 10",
        "snapshot.pickle --align 512",
    ),
    "recompute": (
        "step.json --peak 8GiB -o plan.json",
        "step.json --points 6 --page front.html",
        "step.json --peak 8GiB --cost flops --certificate why.json",
    ),
    "tile": (
        "model.tflite --capacity 128KiB -o tiled.tflite",
        "model.tflite --extra 5% -o plan.json --certificate why.json",
        "model.tflite --points 12 --page front.html",
    ),
    "fits": (
        "step.json 8GiB",
        "graph.json 64KiB --time-limit 10",
        "step.json 8GiB --loss loss --json",
    ),
    "store": (
        "ls plans.store",
        "show plans.store graph.json --plan plan.json",
        "verify plans.store",
    ),
    "store ls": ("plans.store", "plans.store --json"),
    "store show": (
        "plans.store 3",
        "plans.store graph.json",
        "plans.store graph.json --plan plan.json",
    ),
    "store export": (
        "plans.store -o plans.txt",
        "plans.store --only graph.json -o one.txt",
        "plans.store --only 3 --only 5 -o two.txt",
    ),
    "store import": (
        "plans.store plans.txt",
        "plans.store monday.txt tuesday.txt",
        "plans.store plans.txt --trust",
    ),
    "store merge": (
        "plans.store others.store",
        "plans.store a.store b.store",
        "plans.store others.store --trust",
    ),
    "store verify": (
        "plans.store",
        "plans.store --json",
    ),
    "store gc": ("plans.store", "plans.store --older-than 90d"),
    "store revoke": (
        "plans.store --engine 'optsched<0.2'",
        "plans.store --engine 'ortools==9.12'",
        "plans.store --engine 'ortools==9.12' --json",
    ),
    "warmup": ("",),
}
"""Arguments of up to three calls, by command; fewer where there is little to choose."""
