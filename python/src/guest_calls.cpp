// Calls from inside operators of PyTorch. Nothing is recorded, waited for or kept: PyTorch orders the work and owns the
// memory, so a call also works while its stream is being captured.
#include "guest_calls.hpp"

#include "call.hpp"
#include "exported.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/guest.hpp"

namespace tessera::python {

namespace {

/// A block of the other library, released with the last reference.
struct Block {
  const GuestHost* host;
  void* block;
  Block(const GuestHost* h, void* b) : host(h), block(b) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { host->release(block); }
};

class HostMemory final : public runtime::GuestMemory {
 public:
  explicit HostMemory(const GuestHost* host) : host_(host) {}
  GuestMemory::Block allocate(Device device, std::size_t bytes) override {
    void* block = nullptr;
    const char* why = "";
    void* const memory =
        host_->allocate(device.kind() == DeviceKind::Cpu ? kGuestCpu : device.ordinal(), bytes, &block, &why);
    if (memory == nullptr) throw DeviceError(why, kNowhere);
    return {memory, std::make_shared<python::Block>(host_, block)};
  }

 private:
  const GuestHost* host_;
};

/// The memory of a library; guest streams refer to it as long as the process lives.
HostMemory& memory_of(const GuestHost* host) {
  static HostMemory& memory = *new HostMemory(host);
  return memory;
}

Region region_of(const GuestTensor& t, Device device, const Function& f, int i) {
  if (t.rank > detail::kMaxRank)
    throw ShapeError(concat(f.name, ": argument ", i + 1, " (", parameter_name(f, i), ") has ", t.rank,
                            " axes; the library takes up to ", detail::kMaxRank, "."),
                     kNowhere);
  Region r;
  r.element = t.element;
  r.rank = t.rank;
  std::copy_n(t.dims, t.rank, r.dims.begin());
  detail::check_extents(r.shape(), kNowhere);
  detail::set_contiguous(r.shape(), {r.strides.data(), static_cast<std::size_t>(r.rank)});
  for (std::size_t a = 0; t.bytes > 0 && a < static_cast<std::size_t>(r.rank); ++a)
    if (r.dims[a] != 1) r.strides[a] = t.strides[a];
  r.storage = detail::guest_storage(device, const_cast<void*>(t.data), t.bytes, kNowhere);  // read alone
  return r;
}

void run(const GuestCall& g) {
  const Function& f = *g.function;
  const bool cpu = g.device == kGuestCpu;
  const Device device = cpu ? Device::cpu() : Device::cuda(g.device, kNowhere);
  const Stream& stream = detail::guest_stream(device, cpu ? nullptr : g.stream, memory_of(g.host));
  std::vector<Region> tensors;
  for (int i = 0; i < g.tensor_count; ++i) tensors.push_back(region_of(g.tensors[i], device, f, i));
  Call c(f, std::move(tensors), {g.numbers, static_cast<std::size_t>(g.number_count)}, stream, true);
  f.run(c);
  for (const std::unique_ptr<Array>& made : c.results()) {
    const Region& r = made->region;
    const auto owner = std::static_pointer_cast<Block>(detail::guest_owner(r.storage, kNowhere));
    GuestResult result{
        owner->block, made->offset * static_cast<std::int64_t>(size_of(r.element)), r.rank, r.element, {}, {}};
    std::copy_n(r.dims.begin(), r.rank, result.dims.begin());
    std::copy_n(r.strides.begin(), r.rank, result.strides.begin());
    g.take(g.context, &result);
  }
}

int call(const GuestCall* g) {
  return guarded([&] { run(*g); }) ? 0 : 1;
}

}  // namespace

}  // namespace tessera::python

TESSERA_PYTHON const tessera::python::GuestTable* tessera_py_guest_table() {
  using namespace tessera::python;
  static const GuestTable table{all_functions().data(), static_cast<int>(all_functions().size()), call,
                                [] { return last_error().text.c_str(); }};
  return &table;
}
