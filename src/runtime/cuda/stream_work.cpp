// Memsets and copies as work of a stream.
#include "runtime/cuda/stream_work.hpp"

#include "tessera/base/error.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime::cuda {

namespace {

CUdeviceptr address(const Storage& storage) { return reinterpret_cast<std::uintptr_t>(storage.data()); }

class PatternFill final : public Launchable {
 public:
  explicit PatternFill(const Context& context) : context_(context) {}
  void launch(const LaunchContext& c) const override {
    const Storage& to = *c.accesses[0].storage;
    const auto stream = static_cast<CUstream>(c.native_queue);
    const Driver& driver = context_.driver();
    const std::uint64_t bits = c.args[0];
    switch (c.args[1]) {
      case 1:
        return check(driver.cuMemsetD8Async(address(to), static_cast<unsigned char>(bits), to.bytes(), stream),
                     "cuMemsetD8Async");
      case 2:
        return check(driver.cuMemsetD16Async(address(to), static_cast<unsigned short>(bits), to.bytes() / 2, stream),
                     "cuMemsetD16Async");
      case 4:
        return check(driver.cuMemsetD32Async(address(to), static_cast<unsigned>(bits), to.bytes() / 4, stream),
                     "cuMemsetD32Async");
      default: throw InternalError("a fill with a pattern of a size that the driver has no memset for");
    }
  }

 private:
  void check(CUresult result, const char* call) const { context_.check(result, call, "filling memory"); }
  const Context& context_;
};

class RangeCopy final : public Launchable {
 public:
  explicit RangeCopy(const Context& context) : context_(context) {}
  void launch(const LaunchContext& c) const override {
    const CUdeviceptr to = address(*c.accesses[0].storage) + c.args[0];
    const CUdeviceptr from = address(*c.accesses[1].storage) + c.args[1];
    context_.check(context_.driver().cuMemcpyAsync(to, from, c.args[2], static_cast<CUstream>(c.native_queue)),
                   "cuMemcpyAsync", "copying");
  }

 private:
  const Context& context_;
};

class RangeFill final : public Launchable {
 public:
  explicit RangeFill(const Context& context) : context_(context) {}
  void launch(const LaunchContext& c) const override {
    const CUdeviceptr to = address(*c.accesses[0].storage) + c.args[0];
    context_.check(context_.driver().cuMemsetD8Async(to, static_cast<unsigned char>(c.args[2]), c.args[1],
                                                     static_cast<CUstream>(c.native_queue)),
                   "cuMemsetD8Async", "filling memory");
  }

 private:
  const Context& context_;
};

}  // namespace

std::shared_ptr<const Launchable> make_pattern_fill(const Context& context) {
  return std::make_shared<const PatternFill>(context);
}
std::shared_ptr<const Launchable> make_range_copy(const Context& context) {
  return std::make_shared<const RangeCopy>(context);
}
std::shared_ptr<const Launchable> make_range_fill(const Context& context) {
  return std::make_shared<const RangeFill>(context);
}

}  // namespace tessera::runtime::cuda
