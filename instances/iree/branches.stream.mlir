// -----// IR Dump After ScheduleAllocationPass: iree-stream-schedule-allocation //----- //
#executable_target_vmvx_bytecode_fb = #hal.executable.target<"vmvx", "vmvx-bytecode-fb", {iree.encoding.resolver = #iree_cpu.vmvx_encoding_resolver<>, ukernels = "none"}>
#device_target_local = #hal.device.target<"local", [#executable_target_vmvx_bytecode_fb]> : !hal.device
module attributes {stream.affinity.default = #hal.device.affinity<@__device_0>} {
  util.global private @__device_0 = #device_target_local
  stream.executable private @main_dispatch_0 {
    stream.executable.export public @main_dispatch_0_matmul_64x256x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_0_matmul_64x256x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x256xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x256xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>> -> tensor<64x64xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [64, 256], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x256xf32>> -> tensor<64x256xf32>
        %5 = tensor.empty() : tensor<64x256xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x256xf32>) -> tensor<64x256xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x64xf32>, tensor<64x256xf32>) outs(%6 : tensor<64x256xf32>) -> tensor<64x256xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 256], strides = [1, 1] : tensor<64x256xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x256xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_1 {
    stream.executable.export public @main_dispatch_1_matmul_64x192x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_1_matmul_64x192x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x192xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x192xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>> -> tensor<64x64xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [64, 192], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x192xf32>> -> tensor<64x192xf32>
        %5 = tensor.empty() : tensor<64x192xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x192xf32>) -> tensor<64x192xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x64xf32>, tensor<64x192xf32>) outs(%6 : tensor<64x192xf32>) -> tensor<64x192xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 192], strides = [1, 1] : tensor<64x192xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x192xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_2 {
    stream.executable.export public @main_dispatch_2_matmul_64x320x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_2_matmul_64x320x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x320xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x320xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>> -> tensor<64x64xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [64, 320], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x320xf32>> -> tensor<64x320xf32>
        %5 = tensor.empty() : tensor<64x320xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x320xf32>) -> tensor<64x320xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x64xf32>, tensor<64x320xf32>) outs(%6 : tensor<64x320xf32>) -> tensor<64x320xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 320], strides = [1, 1] : tensor<64x320xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x320xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_3 {
    stream.executable.export public @main_dispatch_3_matmul_64x128x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_3_matmul_64x128x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x128xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x128xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>> -> tensor<64x64xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [64, 128], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x128xf32>> -> tensor<64x128xf32>
        %5 = tensor.empty() : tensor<64x128xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x128xf32>) -> tensor<64x128xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x64xf32>, tensor<64x128xf32>) outs(%6 : tensor<64x128xf32>) -> tensor<64x128xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 128], strides = [1, 1] : tensor<64x128xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x128xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_4 {
    stream.executable.export public @main_dispatch_4_matmul_64x64x256_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_4_matmul_64x64x256_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x256xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<256x64xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 256], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x256xf32>> -> tensor<64x256xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [256, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<256x64xf32>> -> tensor<256x64xf32>
        %5 = tensor.empty() : tensor<64x64xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x64xf32>) -> tensor<64x64xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x256xf32>, tensor<256x64xf32>) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : tensor<64x64xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_5 {
    stream.executable.export public @main_dispatch_5_matmul_64x64x192_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_5_matmul_64x64x192_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x192xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<192x64xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 192], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x192xf32>> -> tensor<64x192xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [192, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<192x64xf32>> -> tensor<192x64xf32>
        %5 = tensor.empty() : tensor<64x64xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x64xf32>) -> tensor<64x64xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x192xf32>, tensor<192x64xf32>) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : tensor<64x64xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_6 {
    stream.executable.export public @main_dispatch_6_matmul_64x64x320_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_6_matmul_64x64x320_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x320xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<320x64xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 320], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x320xf32>> -> tensor<64x320xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [320, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<320x64xf32>> -> tensor<320x64xf32>
        %5 = tensor.empty() : tensor<64x64xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x64xf32>) -> tensor<64x64xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x320xf32>, tensor<320x64xf32>) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : tensor<64x64xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_7 {
    stream.executable.export public @main_dispatch_7_matmul_64x64x128_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_7_matmul_64x64x128_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x128xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<128x64xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 128], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x128xf32>> -> tensor<64x128xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [128, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<128x64xf32>> -> tensor<128x64xf32>
        %5 = tensor.empty() : tensor<64x64xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x64xf32>) -> tensor<64x64xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x128xf32>, tensor<128x64xf32>) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : tensor<64x64xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_8 {
    stream.executable.export public @main_dispatch_8_matmul_64x64x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_8_matmul_64x64x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>> -> tensor<64x64xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>> -> tensor<64x64xf32>
        %5 = tensor.empty() : tensor<64x64xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x64xf32>) -> tensor<64x64xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x64xf32>, tensor<64x64xf32>) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : tensor<64x64xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        return
      }
    }
  }
  util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view, %arg3: !hal.buffer_view, %arg4: !hal.buffer_view, %arg5: !hal.buffer_view, %arg6: !hal.buffer_view, %arg7: !hal.buffer_view, %arg8: !hal.buffer_view) -> !hal.buffer_view attributes {iree.abi.stub, iree.reflection = {iree.abi.declaration = "sync func @main(%input0: tensor<64x64xf32>, %input1: tensor<64x256xf32>, %input2: tensor<256x64xf32>, %input3: tensor<64x192xf32>, %input4: tensor<192x64xf32>, %input5: tensor<64x320xf32>, %input6: tensor<320x64xf32>, %input7: tensor<64x128xf32>, %input8: tensor<128x64xf32>) -> (%output0: tensor<64x64xf32>)"}} {
    %c0 = arith.constant 0 : index
    %c32768 = arith.constant 32768 : index
    %c81920 = arith.constant 81920 : index
    %c49152 = arith.constant 49152 : index
    %c65536 = arith.constant 65536 : index
    %c16384 = arith.constant 16384 : index
    %c128 = arith.constant 128 : index
    %c320 = arith.constant 320 : index
    %c192 = arith.constant 192 : index
    %c256 = arith.constant 256 : index
    %c64 = arith.constant 64 : index
    %element_type_f32 = hal.element_type<f32> : i32
    %dense_row_major = hal.encoding_type<dense_row_major> : i32
    hal.buffer_view.assert<%arg0 : !hal.buffer_view> message("input0") shape([%c64, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %0 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg0 : !hal.buffer_view -> tensor<64x64xf32> in !stream.resource<external>{%c16384}
    hal.buffer_view.assert<%arg1 : !hal.buffer_view> message("input1") shape([%c64, %c256]) type(%element_type_f32) encoding(%dense_row_major)
    %1 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg1 : !hal.buffer_view -> tensor<64x256xf32> in !stream.resource<external>{%c65536}
    hal.buffer_view.assert<%arg2 : !hal.buffer_view> message("input2") shape([%c256, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %2 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg2 : !hal.buffer_view -> tensor<256x64xf32> in !stream.resource<external>{%c65536}
    hal.buffer_view.assert<%arg3 : !hal.buffer_view> message("input3") shape([%c64, %c192]) type(%element_type_f32) encoding(%dense_row_major)
    %3 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg3 : !hal.buffer_view -> tensor<64x192xf32> in !stream.resource<external>{%c49152}
    hal.buffer_view.assert<%arg4 : !hal.buffer_view> message("input4") shape([%c192, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %4 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg4 : !hal.buffer_view -> tensor<192x64xf32> in !stream.resource<external>{%c49152}
    hal.buffer_view.assert<%arg5 : !hal.buffer_view> message("input5") shape([%c64, %c320]) type(%element_type_f32) encoding(%dense_row_major)
    %5 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg5 : !hal.buffer_view -> tensor<64x320xf32> in !stream.resource<external>{%c81920}
    hal.buffer_view.assert<%arg6 : !hal.buffer_view> message("input6") shape([%c320, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %6 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg6 : !hal.buffer_view -> tensor<320x64xf32> in !stream.resource<external>{%c81920}
    hal.buffer_view.assert<%arg7 : !hal.buffer_view> message("input7") shape([%c64, %c128]) type(%element_type_f32) encoding(%dense_row_major)
    %7 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg7 : !hal.buffer_view -> tensor<64x128xf32> in !stream.resource<external>{%c32768}
    hal.buffer_view.assert<%arg8 : !hal.buffer_view> message("input8") shape([%c128, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %8 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg8 : !hal.buffer_view -> tensor<128x64xf32> in !stream.resource<external>{%c32768}
    %c0_0 = arith.constant 0 : index
    %result, %result_timepoint = stream.resource.alloca uninitialized on(#hal.device.affinity<@__device_0>) : !stream.resource<external>{%c16384} => !stream.timepoint
    %9:11 = stream.resource.pack on(#hal.device.affinity<@__device_0>) slices({
      [0, 1] = %c65536,
      [0, 1] = %c49152,
      [1, 2] = %c81920,
      [1, 2] = %c32768,
      [1, 2] = %c16384,
      [1, 2] = %c16384,
      [2, 3] = %c16384,
      [2, 4] = %c16384,
      [2, 3] = %c16384,
      [3, 4] = %c16384
    }) : index
    %result_1, %result_timepoint_2 = stream.resource.alloca uninitialized on(#hal.device.affinity<@__device_0>) : !stream.resource<transient>{%9#0} => !stream.timepoint
    %10 = stream.timepoint.join max(%result_timepoint, %result_timepoint_2) => !stream.timepoint
    %11 = stream.cmd.execute on(#hal.device.affinity<@__device_0>) await(%10) => with(%0 as %arg9: !stream.resource<external>{%c16384}, %1 as %arg10: !stream.resource<external>{%c65536}, %3 as %arg11: !stream.resource<external>{%c49152}, %5 as %arg12: !stream.resource<external>{%c81920}, %7 as %arg13: !stream.resource<external>{%c32768}, %2 as %arg14: !stream.resource<external>{%c65536}, %4 as %arg15: !stream.resource<external>{%c49152}, %6 as %arg16: !stream.resource<external>{%c81920}, %8 as %arg17: !stream.resource<external>{%c32768}, %result as %arg18: !stream.resource<external>{%c16384}, %result_1 as %arg19: !stream.resource<transient>{%9#0}) {
      stream.cmd.concurrent {
        stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x256x64_f32 {
          ro %arg9[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg10[%c0 for %c65536] : !stream.resource<external>{%c65536},
          wo %arg19[%9#1 for %c65536] : !stream.resource<transient>{%9#0}
        }
        stream.cmd.dispatch @main_dispatch_1::@main_dispatch_1_matmul_64x192x64_f32 {
          ro %arg9[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg11[%c0 for %c49152] : !stream.resource<external>{%c49152},
          wo %arg19[%9#2 for %c49152] : !stream.resource<transient>{%9#0}
        }
      }
      stream.cmd.concurrent {
        stream.cmd.dispatch @main_dispatch_2::@main_dispatch_2_matmul_64x320x64_f32 {
          ro %arg9[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg12[%c0 for %c81920] : !stream.resource<external>{%c81920},
          wo %arg19[%9#3 for %c81920] : !stream.resource<transient>{%9#0}
        }
        stream.cmd.dispatch @main_dispatch_3::@main_dispatch_3_matmul_64x128x64_f32 {
          ro %arg9[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg13[%c0 for %c32768] : !stream.resource<external>{%c32768},
          wo %arg19[%9#4 for %c32768] : !stream.resource<transient>{%9#0}
        }
        stream.cmd.dispatch @main_dispatch_4::@main_dispatch_4_matmul_64x64x256_f32 {
          ro %arg19[%9#1 for %c65536] : !stream.resource<transient>{%9#0},
          ro %arg14[%c0 for %c65536] : !stream.resource<external>{%c65536},
          wo %arg19[%9#5 for %c16384] : !stream.resource<transient>{%9#0}
        }
        stream.cmd.dispatch @main_dispatch_5::@main_dispatch_5_matmul_64x64x192_f32 {
          ro %arg19[%9#2 for %c49152] : !stream.resource<transient>{%9#0},
          ro %arg15[%c0 for %c49152] : !stream.resource<external>{%c49152},
          wo %arg19[%9#6 for %c16384] : !stream.resource<transient>{%9#0}
        }
      }
      stream.cmd.concurrent {
        stream.cmd.dispatch @main_dispatch_6::@main_dispatch_6_matmul_64x64x320_f32 {
          ro %arg19[%9#3 for %c81920] : !stream.resource<transient>{%9#0},
          ro %arg16[%c0 for %c81920] : !stream.resource<external>{%c81920},
          wo %arg19[%9#7 for %c16384] : !stream.resource<transient>{%9#0}
        }
        stream.cmd.dispatch @main_dispatch_7::@main_dispatch_7_matmul_64x64x128_f32 {
          ro %arg19[%9#4 for %c32768] : !stream.resource<transient>{%9#0},
          ro %arg17[%c0 for %c32768] : !stream.resource<external>{%c32768},
          wo %arg19[%9#8 for %c16384] : !stream.resource<transient>{%9#0}
        }
        stream.cmd.dispatch @main_dispatch_8::@main_dispatch_8_matmul_64x64x64_f32 {
          ro %arg19[%9#5 for %c16384] : !stream.resource<transient>{%9#0},
          ro %arg19[%9#6 for %c16384] : !stream.resource<transient>{%9#0},
          wo %arg19[%9#9 for %c16384] : !stream.resource<transient>{%9#0}
        }
      }
      stream.cmd.dispatch @main_dispatch_8::@main_dispatch_8_matmul_64x64x64_f32 {
        ro %arg19[%9#9 for %c16384] : !stream.resource<transient>{%9#0},
        ro %arg19[%9#7 for %c16384] : !stream.resource<transient>{%9#0},
        wo %arg19[%9#10 for %c16384] : !stream.resource<transient>{%9#0}
      }
      stream.cmd.dispatch @main_dispatch_8::@main_dispatch_8_matmul_64x64x64_f32 {
        ro %arg19[%9#10 for %c16384] : !stream.resource<transient>{%9#0},
        ro %arg19[%9#8 for %c16384] : !stream.resource<transient>{%9#0},
        wo %arg18[%c0_0 for %c16384] : !stream.resource<external>{%c16384}
      }
    } => !stream.timepoint
    %12 = stream.resource.dealloca on(#hal.device.affinity<@__device_0>) await(%11) => %result_1 : !stream.resource<transient>{%9#0} => !stream.timepoint
    %13 = stream.timepoint.join max(%12, %11) => !stream.timepoint
    %14 = stream.timepoint.await %13 => %result : !stream.resource<external>{%c16384}
    %15 = stream.tensor.export on(#hal.device.affinity<@__device_0>) %14 : tensor<64x64xf32> in !stream.resource<external>{%c16384} -> !hal.buffer_view
    util.return %15 : !hal.buffer_view
  }
}


