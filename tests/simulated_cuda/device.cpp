// One CUDA device for a build of torch without CUDA: it exists and has one stream. Its kernels are in device.py.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

static c10::Device first() { return c10::Device(c10::DeviceType::CUDA, 0); }
static c10::Stream only_stream() { return c10::Stream(c10::Stream::DEFAULT, first()); }

struct OneDevice final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  c10::Device getDevice() const override { return first(); }
  c10::Device exchangeDevice(c10::Device) const override { return first(); }
  c10::Stream getStream(c10::Device) const noexcept override { return only_stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return only_stream(); }
};

C10_REGISTER_GUARD_IMPL(CUDA, OneDevice)

namespace at {
// Torch finds hooks by this name.
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};
REGISTER_CUDA_HOOKS(CUDAHooks)
} // namespace at
