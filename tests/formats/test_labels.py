"""Labels of rows are all different, and no longer than that takes."""

from __future__ import annotations

import random

from optsched.formats.labels import distinct_labels


def test_rows_that_differ_in_name_keep_it() -> None:
    assert distinct_labels(["a", "b"], ["x/m.json", "y/m.json"]) == ["a", "b"]


def test_as_much_of_the_path_as_tells_rows_apart() -> None:
    paths = ["p/q/m.onnx", "r/q/m.onnx", "r/s/m.onnx", "r/s/m.tflite", "r/s/n.onnx"]
    labels = ["p/q/m.onnx", "r/q/m.onnx", "s/m.onnx", "m.tflite", "n"]
    assert distinct_labels(["main"] * 5, paths) == labels


def test_one_path_twice_and_graphs_without_a_path_are_numbered() -> None:
    assert distinct_labels(["m", "m", "m"], ["m.json", "m.json", ""]) == ["m.json", "m.json.2", "m"]


def test_labels_are_all_different_whatever_the_names() -> None:
    rng = random.Random(4)
    for _ in range(2_000):
        count = rng.randint(1, 6)
        parts = ["m", "n", "m.json", "m.2"]
        paths = ["/".join(rng.choices(parts, k=rng.randint(0, 3))) for _ in range(count)]
        labels = distinct_labels(rng.choices(parts, k=count), paths)
        assert len(set(labels)) == count
