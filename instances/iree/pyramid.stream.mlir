// -----// IR Dump After ScheduleAllocationPass: iree-stream-schedule-allocation //----- //
#executable_target_vmvx_bytecode_fb = #hal.executable.target<"vmvx", "vmvx-bytecode-fb", {iree.encoding.resolver = #iree_cpu.vmvx_encoding_resolver<>, ukernels = "none"}>
#device_target_local = #hal.device.target<"local", [#executable_target_vmvx_bytecode_fb]> : !hal.device
module attributes {stream.affinity.default = #hal.device.affinity<@__device_0>} {
  util.global private @__device_0 = #device_target_local
  stream.executable private @main_dispatch_0 {
    stream.executable.export public @main_dispatch_0_matmul_64x64x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_0_matmul_64x64x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
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
  stream.executable private @main_dispatch_1 {
    stream.executable.export public @main_dispatch_1_matmul_64x128x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_1_matmul_64x128x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
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
  stream.executable private @main_dispatch_2 {
    stream.executable.export public @main_dispatch_2_matmul_64x256x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_2_matmul_64x256x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
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
  stream.executable private @main_dispatch_3 {
    stream.executable.export public @main_dispatch_3_matmul_64x512x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_3_matmul_64x512x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x512xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x512xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x64xf32>> -> tensor<64x64xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [64, 512], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x512xf32>> -> tensor<64x512xf32>
        %5 = tensor.empty() : tensor<64x512xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x512xf32>) -> tensor<64x512xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x64xf32>, tensor<64x512xf32>) outs(%6 : tensor<64x512xf32>) -> tensor<64x512xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 512], strides = [1, 1] : tensor<64x512xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x512xf32>>
        return
      }
    }
  }
  stream.executable private @main_dispatch_8 {
    stream.executable.export public @main_dispatch_8_matmul_64x64x128_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_8_matmul_64x64x128_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
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
  stream.executable private @main_dispatch_9 {
    stream.executable.export public @main_dispatch_9_matmul_64x64x256_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_9_matmul_64x64x256_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
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
  stream.executable private @main_dispatch_10 {
    stream.executable.export public @main_dispatch_10_matmul_64x64x512_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_10_matmul_64x64x512_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
        %cst = arith.constant 0.000000e+00 : f32
        %c0 = arith.constant 0 : index
        %0 = stream.binding.subspan %arg0[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x512xf32>>
        %1 = stream.binding.subspan %arg1[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<512x64xf32>>
        %2 = stream.binding.subspan %arg2[%c0] : !stream.binding -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        %3 = iree_tensor_ext.dispatch.tensor.load %0, offsets = [0, 0], sizes = [64, 512], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<64x512xf32>> -> tensor<64x512xf32>
        %4 = iree_tensor_ext.dispatch.tensor.load %1, offsets = [0, 0], sizes = [512, 64], strides = [1, 1] : !iree_tensor_ext.dispatch.tensor<readonly:tensor<512x64xf32>> -> tensor<512x64xf32>
        %5 = tensor.empty() : tensor<64x64xf32>
        %6 = linalg.fill ins(%cst : f32) outs(%5 : tensor<64x64xf32>) -> tensor<64x64xf32>
        %7 = linalg.matmul ins(%3, %4 : tensor<64x512xf32>, tensor<512x64xf32>) outs(%6 : tensor<64x64xf32>) -> tensor<64x64xf32>
        iree_tensor_ext.dispatch.tensor.store %7, %2, offsets = [0, 0], sizes = [64, 64], strides = [1, 1] : tensor<64x64xf32> -> !iree_tensor_ext.dispatch.tensor<writeonly:tensor<64x64xf32>>
        return
      }
    }
  }
  util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view, %arg3: !hal.buffer_view, %arg4: !hal.buffer_view, %arg5: !hal.buffer_view, %arg6: !hal.buffer_view, %arg7: !hal.buffer_view, %arg8: !hal.buffer_view, %arg9: !hal.buffer_view, %arg10: !hal.buffer_view, %arg11: !hal.buffer_view, %arg12: !hal.buffer_view, %arg13: !hal.buffer_view, %arg14: !hal.buffer_view) -> !hal.buffer_view attributes {iree.abi.stub, iree.reflection = {iree.abi.declaration = "sync func @main(%input0: tensor<64x64xf32>, %input1: tensor<64x64xf32>, %input2: tensor<64x64xf32>, %input3: tensor<64x128xf32>, %input4: tensor<128x64xf32>, %input5: tensor<64x256xf32>, %input6: tensor<256x64xf32>, %input7: tensor<64x512xf32>, %input8: tensor<512x64xf32>, %input9: tensor<64x256xf32>, %input10: tensor<256x64xf32>, %input11: tensor<64x128xf32>, %input12: tensor<128x64xf32>, %input13: tensor<64x64xf32>, %input14: tensor<64x64xf32>) -> (%output0: tensor<64x64xf32>)"}} {
    %c0 = arith.constant 0 : index
    %c131072 = arith.constant 131072 : index
    %c65536 = arith.constant 65536 : index
    %c32768 = arith.constant 32768 : index
    %c16384 = arith.constant 16384 : index
    %c512 = arith.constant 512 : index
    %c256 = arith.constant 256 : index
    %c128 = arith.constant 128 : index
    %c64 = arith.constant 64 : index
    %element_type_f32 = hal.element_type<f32> : i32
    %dense_row_major = hal.encoding_type<dense_row_major> : i32
    hal.buffer_view.assert<%arg0 : !hal.buffer_view> message("input0") shape([%c64, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %0 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg0 : !hal.buffer_view -> tensor<64x64xf32> in !stream.resource<external>{%c16384}
    hal.buffer_view.assert<%arg1 : !hal.buffer_view> message("input1") shape([%c64, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %1 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg1 : !hal.buffer_view -> tensor<64x64xf32> in !stream.resource<external>{%c16384}
    hal.buffer_view.assert<%arg2 : !hal.buffer_view> message("input2") shape([%c64, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %2 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg2 : !hal.buffer_view -> tensor<64x64xf32> in !stream.resource<external>{%c16384}
    hal.buffer_view.assert<%arg3 : !hal.buffer_view> message("input3") shape([%c64, %c128]) type(%element_type_f32) encoding(%dense_row_major)
    %3 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg3 : !hal.buffer_view -> tensor<64x128xf32> in !stream.resource<external>{%c32768}
    hal.buffer_view.assert<%arg4 : !hal.buffer_view> message("input4") shape([%c128, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %4 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg4 : !hal.buffer_view -> tensor<128x64xf32> in !stream.resource<external>{%c32768}
    hal.buffer_view.assert<%arg5 : !hal.buffer_view> message("input5") shape([%c64, %c256]) type(%element_type_f32) encoding(%dense_row_major)
    %5 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg5 : !hal.buffer_view -> tensor<64x256xf32> in !stream.resource<external>{%c65536}
    hal.buffer_view.assert<%arg6 : !hal.buffer_view> message("input6") shape([%c256, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %6 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg6 : !hal.buffer_view -> tensor<256x64xf32> in !stream.resource<external>{%c65536}
    hal.buffer_view.assert<%arg7 : !hal.buffer_view> message("input7") shape([%c64, %c512]) type(%element_type_f32) encoding(%dense_row_major)
    %7 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg7 : !hal.buffer_view -> tensor<64x512xf32> in !stream.resource<external>{%c131072}
    hal.buffer_view.assert<%arg8 : !hal.buffer_view> message("input8") shape([%c512, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %8 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg8 : !hal.buffer_view -> tensor<512x64xf32> in !stream.resource<external>{%c131072}
    hal.buffer_view.assert<%arg9 : !hal.buffer_view> message("input9") shape([%c64, %c256]) type(%element_type_f32) encoding(%dense_row_major)
    %9 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg9 : !hal.buffer_view -> tensor<64x256xf32> in !stream.resource<external>{%c65536}
    hal.buffer_view.assert<%arg10 : !hal.buffer_view> message("input10") shape([%c256, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %10 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg10 : !hal.buffer_view -> tensor<256x64xf32> in !stream.resource<external>{%c65536}
    hal.buffer_view.assert<%arg11 : !hal.buffer_view> message("input11") shape([%c64, %c128]) type(%element_type_f32) encoding(%dense_row_major)
    %11 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg11 : !hal.buffer_view -> tensor<64x128xf32> in !stream.resource<external>{%c32768}
    hal.buffer_view.assert<%arg12 : !hal.buffer_view> message("input12") shape([%c128, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %12 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg12 : !hal.buffer_view -> tensor<128x64xf32> in !stream.resource<external>{%c32768}
    hal.buffer_view.assert<%arg13 : !hal.buffer_view> message("input13") shape([%c64, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %13 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg13 : !hal.buffer_view -> tensor<64x64xf32> in !stream.resource<external>{%c16384}
    hal.buffer_view.assert<%arg14 : !hal.buffer_view> message("input14") shape([%c64, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %14 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg14 : !hal.buffer_view -> tensor<64x64xf32> in !stream.resource<external>{%c16384}
    %c0_0 = arith.constant 0 : index
    %result, %result_timepoint = stream.resource.alloca uninitialized on(#hal.device.affinity<@__device_0>) : !stream.resource<external>{%c16384} => !stream.timepoint
    %15:20 = stream.resource.pack on(#hal.device.affinity<@__device_0>) slices({
      [0, 1] = %c16384,
      [0, 1] = %c32768,
      [1, 2] = %c65536,
      [1, 2] = %c131072,
      [1, 2] = %c65536,
      [1, 2] = %c32768,
      [1, 2] = %c16384,
      [1, 2] = %c16384,
      [1, 2] = %c16384,
      [2, 3] = %c16384,
      [2, 4] = %c16384,
      [2, 5] = %c16384,
      [2, 6] = %c16384,
      [2, 7] = %c16384,
      [2, 3] = %c16384,
      [3, 4] = %c16384,
      [4, 5] = %c16384,
      [5, 6] = %c16384,
      [6, 7] = %c16384
    }) : index
    %result_1, %result_timepoint_2 = stream.resource.alloca uninitialized on(#hal.device.affinity<@__device_0>) : !stream.resource<transient>{%15#0} => !stream.timepoint
    %16 = stream.timepoint.join max(%result_timepoint, %result_timepoint_2) => !stream.timepoint
    %17 = stream.cmd.execute on(#hal.device.affinity<@__device_0>) await(%16) => with(%0 as %arg15: !stream.resource<external>{%c16384}, %1 as %arg16: !stream.resource<external>{%c16384}, %3 as %arg17: !stream.resource<external>{%c32768}, %5 as %arg18: !stream.resource<external>{%c65536}, %7 as %arg19: !stream.resource<external>{%c131072}, %9 as %arg20: !stream.resource<external>{%c65536}, %11 as %arg21: !stream.resource<external>{%c32768}, %13 as %arg22: !stream.resource<external>{%c16384}, %2 as %arg23: !stream.resource<external>{%c16384}, %4 as %arg24: !stream.resource<external>{%c32768}, %6 as %arg25: !stream.resource<external>{%c65536}, %8 as %arg26: !stream.resource<external>{%c131072}, %10 as %arg27: !stream.resource<external>{%c65536}, %12 as %arg28: !stream.resource<external>{%c32768}, %14 as %arg29: !stream.resource<external>{%c16384}, %result as %arg30: !stream.resource<external>{%c16384}, %result_1 as %arg31: !stream.resource<transient>{%15#0}) {
      stream.cmd.concurrent {
        stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
          ro %arg15[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg16[%c0 for %c16384] : !stream.resource<external>{%c16384},
          wo %arg31[%15#1 for %c16384] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_1::@main_dispatch_1_matmul_64x128x64_f32 {
          ro %arg15[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg17[%c0 for %c32768] : !stream.resource<external>{%c32768},
          wo %arg31[%15#2 for %c32768] : !stream.resource<transient>{%15#0}
        }
      }
      stream.cmd.concurrent {
        stream.cmd.dispatch @main_dispatch_2::@main_dispatch_2_matmul_64x256x64_f32 {
          ro %arg15[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg18[%c0 for %c65536] : !stream.resource<external>{%c65536},
          wo %arg31[%15#3 for %c65536] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_3::@main_dispatch_3_matmul_64x512x64_f32 {
          ro %arg15[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg19[%c0 for %c131072] : !stream.resource<external>{%c131072},
          wo %arg31[%15#4 for %c131072] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_2::@main_dispatch_2_matmul_64x256x64_f32 {
          ro %arg15[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg20[%c0 for %c65536] : !stream.resource<external>{%c65536},
          wo %arg31[%15#5 for %c65536] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_1::@main_dispatch_1_matmul_64x128x64_f32 {
          ro %arg15[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg21[%c0 for %c32768] : !stream.resource<external>{%c32768},
          wo %arg31[%15#6 for %c32768] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
          ro %arg15[%c0 for %c16384] : !stream.resource<external>{%c16384},
          ro %arg22[%c0 for %c16384] : !stream.resource<external>{%c16384},
          wo %arg31[%15#7 for %c16384] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
          ro %arg31[%15#1 for %c16384] : !stream.resource<transient>{%15#0},
          ro %arg23[%c0 for %c16384] : !stream.resource<external>{%c16384},
          wo %arg31[%15#8 for %c16384] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_8::@main_dispatch_8_matmul_64x64x128_f32 {
          ro %arg31[%15#2 for %c32768] : !stream.resource<transient>{%15#0},
          ro %arg24[%c0 for %c32768] : !stream.resource<external>{%c32768},
          wo %arg31[%15#9 for %c16384] : !stream.resource<transient>{%15#0}
        }
      }
      stream.cmd.concurrent {
        stream.cmd.dispatch @main_dispatch_9::@main_dispatch_9_matmul_64x64x256_f32 {
          ro %arg31[%15#3 for %c65536] : !stream.resource<transient>{%15#0},
          ro %arg25[%c0 for %c65536] : !stream.resource<external>{%c65536},
          wo %arg31[%15#10 for %c16384] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_10::@main_dispatch_10_matmul_64x64x512_f32 {
          ro %arg31[%15#4 for %c131072] : !stream.resource<transient>{%15#0},
          ro %arg26[%c0 for %c131072] : !stream.resource<external>{%c131072},
          wo %arg31[%15#11 for %c16384] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_9::@main_dispatch_9_matmul_64x64x256_f32 {
          ro %arg31[%15#5 for %c65536] : !stream.resource<transient>{%15#0},
          ro %arg27[%c0 for %c65536] : !stream.resource<external>{%c65536},
          wo %arg31[%15#12 for %c16384] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_8::@main_dispatch_8_matmul_64x64x128_f32 {
          ro %arg31[%15#6 for %c32768] : !stream.resource<transient>{%15#0},
          ro %arg28[%c0 for %c32768] : !stream.resource<external>{%c32768},
          wo %arg31[%15#13 for %c16384] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
          ro %arg31[%15#7 for %c16384] : !stream.resource<transient>{%15#0},
          ro %arg29[%c0 for %c16384] : !stream.resource<external>{%c16384},
          wo %arg31[%15#14 for %c16384] : !stream.resource<transient>{%15#0}
        }
        stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
          ro %arg31[%15#8 for %c16384] : !stream.resource<transient>{%15#0},
          ro %arg31[%15#9 for %c16384] : !stream.resource<transient>{%15#0},
          wo %arg31[%15#15 for %c16384] : !stream.resource<transient>{%15#0}
        }
      }
      stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
        ro %arg31[%15#15 for %c16384] : !stream.resource<transient>{%15#0},
        ro %arg31[%15#10 for %c16384] : !stream.resource<transient>{%15#0},
        wo %arg31[%15#16 for %c16384] : !stream.resource<transient>{%15#0}
      }
      stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
        ro %arg31[%15#16 for %c16384] : !stream.resource<transient>{%15#0},
        ro %arg31[%15#11 for %c16384] : !stream.resource<transient>{%15#0},
        wo %arg31[%15#17 for %c16384] : !stream.resource<transient>{%15#0}
      }
      stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
        ro %arg31[%15#17 for %c16384] : !stream.resource<transient>{%15#0},
        ro %arg31[%15#12 for %c16384] : !stream.resource<transient>{%15#0},
        wo %arg31[%15#18 for %c16384] : !stream.resource<transient>{%15#0}
      }
      stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
        ro %arg31[%15#18 for %c16384] : !stream.resource<transient>{%15#0},
        ro %arg31[%15#13 for %c16384] : !stream.resource<transient>{%15#0},
        wo %arg31[%15#19 for %c16384] : !stream.resource<transient>{%15#0}
      }
      stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x64x64_f32 {
        ro %arg31[%15#19 for %c16384] : !stream.resource<transient>{%15#0},
        ro %arg31[%15#14 for %c16384] : !stream.resource<transient>{%15#0},
        wo %arg30[%c0_0 for %c16384] : !stream.resource<external>{%c16384}
      }
    } => !stream.timepoint
    %18 = stream.resource.dealloca on(#hal.device.affinity<@__device_0>) await(%17) => %result_1 : !stream.resource<transient>{%15#0} => !stream.timepoint
    %19 = stream.timepoint.join max(%18, %17) => !stream.timepoint
    %20 = stream.timepoint.await %19 => %result : !stream.resource<external>{%c16384}
    %21 = stream.tensor.export on(#hal.device.affinity<@__device_0>) %20 : tensor<64x64xf32> in !stream.resource<external>{%c16384} -> !hal.buffer_view
    util.return %21 : !hal.buffer_view
  }
}


