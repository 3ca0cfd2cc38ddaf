// -----// IR Dump After ScheduleAllocationPass: iree-stream-schedule-allocation //----- //
#executable_target_vmvx_bytecode_fb = #hal.executable.target<"vmvx", "vmvx-bytecode-fb", {iree.encoding.resolver = #iree_cpu.vmvx_encoding_resolver<>, ukernels = "none"}>
#device_target_local = #hal.device.target<"local", [#executable_target_vmvx_bytecode_fb]> : !hal.device
module attributes {stream.affinity.default = #hal.device.affinity<@__device_0>} {
  util.global private @__device_0 = #device_target_local
  stream.executable private @main_dispatch_0 {
    stream.executable.export public @main_dispatch_0_matmul_64x512x64_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_0_matmul_64x512x64_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
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
  stream.executable private @main_dispatch_1 {
    stream.executable.export public @main_dispatch_1_matmul_64x64x512_f32 workgroups() -> (index, index, index) {
      %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice()
      stream.return %x, %y, %z : index, index, index
    }
    builtin.module {
      func.func @main_dispatch_1_matmul_64x64x512_f32(%arg0: !stream.binding, %arg1: !stream.binding, %arg2: !stream.binding) {
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
  util.func public @main(%arg0: !hal.buffer_view, %arg1: !hal.buffer_view, %arg2: !hal.buffer_view) -> !hal.buffer_view attributes {iree.abi.stub, iree.reflection = {iree.abi.declaration = "sync func @main(%input0: tensor<64x64xf32>, %input1: tensor<64x512xf32>, %input2: tensor<512x64xf32>) -> (%output0: tensor<64x64xf32>)"}} {
    %c0 = arith.constant 0 : index
    %c131072 = arith.constant 131072 : index
    %c16384 = arith.constant 16384 : index
    %c512 = arith.constant 512 : index
    %c64 = arith.constant 64 : index
    %element_type_f32 = hal.element_type<f32> : i32
    %dense_row_major = hal.encoding_type<dense_row_major> : i32
    hal.buffer_view.assert<%arg0 : !hal.buffer_view> message("input0") shape([%c64, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %0 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg0 : !hal.buffer_view -> tensor<64x64xf32> in !stream.resource<external>{%c16384}
    hal.buffer_view.assert<%arg1 : !hal.buffer_view> message("input1") shape([%c64, %c512]) type(%element_type_f32) encoding(%dense_row_major)
    %1 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg1 : !hal.buffer_view -> tensor<64x512xf32> in !stream.resource<external>{%c131072}
    hal.buffer_view.assert<%arg2 : !hal.buffer_view> message("input2") shape([%c512, %c64]) type(%element_type_f32) encoding(%dense_row_major)
    %2 = stream.tensor.import on(#hal.device.affinity<@__device_0>) %arg2 : !hal.buffer_view -> tensor<512x64xf32> in !stream.resource<external>{%c131072}
    %c0_0 = arith.constant 0 : index
    %result, %result_timepoint = stream.resource.alloca uninitialized on(#hal.device.affinity<@__device_0>) : !stream.resource<external>{%c16384} => !stream.timepoint
    %3:2 = stream.resource.pack on(#hal.device.affinity<@__device_0>) slices({
      [0, 1] = %c131072
    }) : index
    %result_1, %result_timepoint_2 = stream.resource.alloca uninitialized on(#hal.device.affinity<@__device_0>) : !stream.resource<transient>{%3#0} => !stream.timepoint
    %4 = stream.timepoint.join max(%result_timepoint, %result_timepoint_2) => !stream.timepoint
    %5 = stream.cmd.execute on(#hal.device.affinity<@__device_0>) await(%4) => with(%0 as %arg3: !stream.resource<external>{%c16384}, %1 as %arg4: !stream.resource<external>{%c131072}, %2 as %arg5: !stream.resource<external>{%c131072}, %result as %arg6: !stream.resource<external>{%c16384}, %result_1 as %arg7: !stream.resource<transient>{%3#0}) {
      stream.cmd.dispatch @main_dispatch_0::@main_dispatch_0_matmul_64x512x64_f32 {
        ro %arg3[%c0 for %c16384] : !stream.resource<external>{%c16384},
        ro %arg4[%c0 for %c131072] : !stream.resource<external>{%c131072},
        wo %arg7[%3#1 for %c131072] : !stream.resource<transient>{%3#0}
      }
      stream.cmd.dispatch @main_dispatch_1::@main_dispatch_1_matmul_64x64x512_f32 {
        ro %arg7[%3#1 for %c131072] : !stream.resource<transient>{%3#0},
        ro %arg5[%c0 for %c131072] : !stream.resource<external>{%c131072},
        wo %arg6[%c0_0 for %c16384] : !stream.resource<external>{%c16384}
      }
    } => !stream.timepoint
    %6 = stream.resource.dealloca on(#hal.device.affinity<@__device_0>) await(%5) => %result_1 : !stream.resource<transient>{%3#0} => !stream.timepoint
    %7 = stream.timepoint.join max(%6, %5) => !stream.timepoint
    %8 = stream.timepoint.await %7 => %result : !stream.resource<external>{%c16384}
    %9 = stream.tensor.export on(#hal.device.affinity<@__device_0>) %8 : tensor<64x64xf32> in !stream.resource<external>{%c16384} -> !hal.buffer_view
    util.return %9 : !hal.buffer_view
  }
}


