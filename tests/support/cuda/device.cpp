// A device of type CUDA for a build of torch without CUDA.
//
// Three parts, each as small as tracing and lowering with fake tensors allow:
//   1. a device guard and CUDA hooks, so that torch believes in one device with index 0;
//   2. an allocator on the host, since constant folding computes a few real numbers;
//   3. the ops that make, copy and read tensors; every other op runs on the CPU.
// The library has to be loaded before torch is imported, since torch reads the hooks only once.
#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

const Device kDevice(DeviceType::CUDA, 0);
const Stream kStream(Stream::DEFAULT, kDevice);

// Part 1. The base class refuses devices with an index and events, which autograd's engine uses.
class Guard final : public c10::impl::NoOpDeviceGuardImpl<DeviceType::CUDA> {
 public:
  Device exchangeDevice(Device) const override { return kDevice; }
  Device getDevice() const override { return kDevice; }
  Stream getStream(Device) const noexcept override { return kStream; }
  Stream getDefaultStream(Device) const override { return kStream; }
  Stream getNewStream(Device, int) const override { return kStream; }
  Stream exchangeStream(Stream) const noexcept override { return kStream; }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard);

class Hooks final : public at::CUDAHooksInterface {
 public:
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCuDNN() const override { return true; }
  bool compiledWithCuDNN() const override { return true; }
  bool supportsDepthwiseConvolutionWithCuDNN() const override { return true; }
  bool supportsDilatedConvolutionWithCuDNN() const override { return true; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return true; }
  double batchnormMinEpsilonCuDNN() const override { return 1e-5; }
  long versionCuDNN() const override { return 91000; }
  long versionRuntimeCuDNN() const override { return 91000; }
  long versionCuDNNFrontend() const override { return 10900; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  void deviceSynchronize(DeviceIndex) const override {}
};

// Torch holds a reference to its default hooks by now: ours take their place in memory.
struct Installation {
  Installation() {
    static_assert(sizeof(Hooks) == sizeof(at::CUDAHooksInterface));
    new (const_cast<at::CUDAHooksInterface*>(&at::detail::getCUDAHooks())) Hooks();
  }
} installation;

// Part 2.
class HostMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = std::malloc(bytes ? bytes : 1);
    return {memory, memory, &std::free, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
} memory;

// Part 3.
const c10::DispatchKeySet kKeys(c10::DispatchKey::CUDA);

at::Tensor on_cpu(const at::Tensor& x) {
  if (!x.is_cuda()) return x;
  return at::from_blob(x.data_ptr(), x.sizes(), x.strides(), x.options().device(at::kCPU));
}

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
    std::optional<Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
    std::optional<at::Layout>, std::optional<Device>, std::optional<bool>) {
  const auto dtype = c10::dtype_or_default(type);
  return at::detail::empty_strided_generic(size, stride, &memory, kKeys, dtype);
}

at::Tensor as_strided(
    const at::Tensor& x, at::IntArrayRef size, at::IntArrayRef stride,
    std::optional<int64_t> offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(x.storage()), x.key_set(), x.dtype());
  auto* impl = view.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(size, stride, offset.value_or(x.storage_offset()));
  return view;
}

at::Tensor& copy_(at::Tensor& to, const at::Tensor& from, bool) {
  on_cpu(to).copy_(on_cpu(from));
  return to;
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  on_cpu(to).copy_(on_cpu(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  return copy_from(from, to, false);
}

at::Tensor& fill_(at::Tensor& x, const at::Scalar& value) {
  on_cpu(x).fill_(value);
  return x;
}

at::Tensor& zero_(at::Tensor& x) {
  on_cpu(x).zero_();
  return x;
}

at::Scalar item(const at::Tensor& x) { return on_cpu(x).item(); }

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("fill_.Scalar", fill_);
  m.impl("zero_", zero_);
  m.impl("_local_scalar_dense", item);
}

TORCH_LIBRARY_IMPL(_, CUDA, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

}  // namespace
