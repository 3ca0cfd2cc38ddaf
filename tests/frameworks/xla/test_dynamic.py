"""Arrays with bounds in place of sizes: the sizes that XLA keeps after them are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

from optsched.compare.saving import stock_plan  # noqa: E402
from optsched.formats.reading import GraphReading  # noqa: E402

TEXT = """
func.func public @main(%x: tensor<64x5xf32>, %n: tensor<i32>) -> BOUNDED {
  %a = stablehlo.set_dimension_size %x, %n, dim = 0
      : (tensor<64x5xf32>, tensor<i32>) -> BOUNDED
  %b = stablehlo.sine %a : BOUNDED
  %c = stablehlo.reverse %b, dims = [1] : BOUNDED
  return %c : BOUNDED
}
""".replace("BOUNDED", "tensor<?x5xf32, #stablehlo.bounds<64, ?>>")


def test_the_sizes_of_a_result_are_allocated_after_it(tmp_path: Path) -> None:
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    client = jax.devices("cpu")[0].client
    devices = xla_client.DeviceList(tuple(client.devices()[:1]))
    with mlir.make_ir_context():
        module = ir.Module.parse(f"module @m {{{TEXT}}}")
        made = client.compile_and_load(module, devices, xla_client.CompileOptions())
    use = made.get_compiled_memory_stats()
    (path := tmp_path / "module.hlo").write_text(made.hlo_modules()[0].to_string())
    read = GraphReading(inplace=True).read_module(path)
    own = stock_plan(read.graphs[read.entry])
    assert own is not None
    assert own.slab == use.temp_size_in_bytes + use.output_size_in_bytes
    assert use.output_size_in_bytes == 64 * 5 * 4 + 2 * 4
