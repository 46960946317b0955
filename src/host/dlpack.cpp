// DLPack tensors: verification and the deleter of imported ones, the contents of exported ones.
#include "tessera/host/dlpack.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <mutex>
#include <unordered_set>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/stack.hpp"
#include "tessera/host/borrow.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::detail {
namespace {

// ---- element types --------------------------------------------------------------------------------------------------

/// The DLPack type of an element type. The templates have excluded tf32.
dlpack::DataType data_type(ElementType e) {
  std::uint8_t code = dlpack::kFloat;
  switch (info(e).cls) {
    case ElementClass::Signed: code = dlpack::kInt; break;
    case ElementClass::Unsigned: code = dlpack::kUInt; break;
    case ElementClass::Bool: code = dlpack::kBool; break;
    case ElementClass::Float:
      if (e == ElementType::bf16) code = dlpack::kBfloat;
      if (e == ElementType::f8e4m3) code = dlpack::kFloat8E4M3FN;
      if (e == ElementType::f8e5m2) code = dlpack::kFloat8E5M2;
      break;
  }
  return {code, info(e).bits, 1};
}

/// The name of a DLDataTypeCode: "float of 32 bits".
std::string text(dlpack::DataType t) {
  static constexpr const char* names[] = {"int",
                                          "uint",
                                          "float",
                                          "opaque handle",
                                          "bfloat",
                                          "complex",
                                          "bool",
                                          "float8_e3m4",
                                          "float8_e4m3",
                                          "float8_e4m3b11fnuz",
                                          "float8_e4m3fn",
                                          "float8_e4m3fnuz",
                                          "float8_e5m2",
                                          "float8_e5m2fnuz",
                                          "float8_e8m0fnu",
                                          "float6_e2m3fn",
                                          "float6_e3m2fn",
                                          "float4_e2m1fn"};
  std::string s = t.code < std::size(names) ? std::string(names[t.code]) : concat("type code ", int{t.code});
  s += concat(" of ", int{t.bits}, " bits");
  if (t.lanes != 1) s += concat(" in ", int{t.lanes}, " lanes");
  return s;
}

/// The state of an exported tensor, in one allocation. The consumer's deleter returns it. The consumer's work may still
/// be running then, on streams that DLPack does not name, so the device decides when the lease ends and the storage is
/// released.
template <class M>
struct Export final : runtime::HandedBack {
  M managed{};
  runtime::StorageRef storage;
  runtime::LeaseLink lease;  // declared after its storage: destroyed before it
  std::shared_ptr<char> owners;
  std::array<std::int64_t, kMaxRank> dims{}, strides{};
  std::atomic<bool> taken_back{false};  ///< imported again by from_dlpack: a second tensor over it would be an alias

  void end_lease() noexcept override {
    if (lease.exclusive()) storage->host_wrote(0, storage->bytes());  // by the consumer, for checked mode
    lease.release();
    owners.reset();
  }
  static void end(M* managed) {
    auto* self = static_cast<Export*>(managed->manager_ctx);
    self->storage->device().backend().end_when_idle(self);
  }
};

/// Returns the flag of an export of ours that is imported again, otherwise null. Nothing can use the memory through the
/// exported storage, so a second storage over it is safe, also for foreign memory; a third would not be.
template <class M>
std::atomic<bool>* taken_back(void* managed) {
  M* m = static_cast<M*>(managed);
  return m->deleter == Export<M>::end ? &static_cast<Export<M>*>(m->manager_ctx)->taken_back : nullptr;
}

// ---- from -----------------------------------------------------------------------------------------------------------

/// The structures that tensors here own. One that is taken twice would have its deleter called twice.
class TakenStructures {
 public:
  static TakenStructures& all() {
    static TakenStructures& taken = *new TakenStructures;  // never destroyed: tensors in statics may end last
    return taken;
  }
  /// False if it was taken before.
  bool take(const void* managed) {
    std::lock_guard lock(mutex_);
    return taken_.insert(managed).second;
  }
  void give_back(const void* managed) noexcept {
    std::lock_guard lock(mutex_);
    taken_.erase(managed);
  }

 private:
  std::mutex mutex_;
  std::unordered_set<const void*> taken_;
};

/// Calls the deleter when the storage has been destroyed. Only once it is armed: before that the caller owns the
/// tensor.
struct Guard {
  Exchanged source;
  bool armed = false;
  bool taken = false;
  std::shared_ptr<char> owners;  ///< read-only: an additional owner, so that no Shared is ever the only one

  explicit Guard(Exchanged x) : source(x) {}
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    if (taken) TakenStructures::all().give_back(source.managed);
    if (!armed) return;
    // The structure may be an export of ours, of a tensor that was itself imported, and so on: as deep as users make
    // it.
    try_with_stack([&] {
      const dlpack::Release release;
      if (source.versioned)
        release(static_cast<dlpack::ManagedTensorVersioned*>(source.managed));
      else
        release(static_cast<dlpack::ManagedTensor*>(source.managed));
    });
  }
};

Device device_of(dlpack::DeviceId d, SourceLocation where) {
  switch (d.device_type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost: return Device::cpu();  // pinned memory is host memory
    case dlpack::kCuda: try { return Device::cuda(d.device_id, {});
      } catch (const DeviceError& e) {
        throw DeviceError(concat("from_dlpack: the tensor is on CUDA device ", d.device_id, ". ", e.message()), where);
      }
    default: break;
  }
  throw DeviceError(concat("from_dlpack: the tensor is on a device of DLPack's type ", d.device_type,
                           "; Tessera takes 1 (CPU), 2 (CUDA) and 3 (pinned host memory).\n  Copy it there first."),
                    where);
}

void check_type(const dlpack::Tensor& t, ElementType element, std::size_t rank, SourceLocation where) {
  if (t.dtype != data_type(element)) {
    throw ShapeError(
        concat("from_dlpack<", info(element).name, ", ", rank, ">: the tensor's elements are ", text(t.dtype),
               ", expected ", text(data_type(element)), ".\n  Name the type that it has, and convert with cast."),
        where);
  }
  if (t.ndim != static_cast<std::int64_t>(rank)) {
    // At most `rank` extents are read: more may not exist. None are read if ndim is more than any tensor has.
    const bool readable = t.shape && t.ndim > 0 && t.ndim <= kMaxRank;
    const std::size_t seen = readable ? std::min(static_cast<std::size_t>(t.ndim), rank) : 0;
    std::string extents = seen == 0 ? "" : concat(", with the extents ", extents_text({t.shape, seen}));
    if (seen != 0 && static_cast<std::size_t>(t.ndim) > seen) extents.insert(extents.size() - 1, ", ...");
    throw ShapeError(
        concat("from_dlpack<", info(element).name, ", ", rank, ">: the tensor has ", t.ndim, " axes", extents,
               "; expected ", rank, " (ndim).\n  Use from_dlpack with that rank, or reshape it there."),
        where);
  }
  if (!t.shape) {
    throw ShapeError(
        concat("from_dlpack<", info(element).name, ", ", rank, ">: shape is a null pointer, and ndim says ", t.ndim,
               " axes.\n  The producer has to set it."),
        where);
  }
}

/// No program's addresses are wider (x86-64 with five levels of page tables), except for tags in the top byte.
constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 56;

/// True if `bytes` from `from` on stay in the address space.
bool inside_address_space(const void* from, std::uint64_t bytes) {
  return bytes <= kAddressSpace - (reinterpret_cast<std::uintptr_t>(from) & (kAddressSpace - 1));
}

/// The address of element (0, ..., 0): data + byte_offset.
std::byte* first_element(const dlpack::Tensor& t, SourceLocation where) {
  if (!t.data)
    throw ShapeError("from_dlpack: data is a null pointer, but the tensor has elements.\n  The producer has to set it.",
                     where);
  if (!inside_address_space(t.data, t.byte_offset)) {
    throw ShapeError(
        concat("from_dlpack: byte_offset is ", t.byte_offset,
               ", which leads out of the address space.\n  It is unsigned, so an offset to before data cannot be "
               "represented."),
        where);
  }
  return static_cast<std::byte*>(t.data) + t.byte_offset;
}

/// Throws ShapeError if [first, first + bytes) leaves the address space; on a GPU, DeviceError unless it lies in the
/// same allocation as `data`.
void check_range(const dlpack::Tensor& t, const std::byte* first, std::size_t bytes, Device device,
                 SourceLocation where) {
  if (!inside_address_space(first, bytes)) {
    throw ShapeError(concat("from_dlpack: the tensor's ", bytes,
                            " bytes leave the address space: check its shape, strides and byte_offset."),
                     where);
  }
  try {
    if (t.byte_offset != 0) device.backend().verify_foreign(t.data, static_cast<std::size_t>(t.byte_offset) + bytes);
  } catch (const DeviceError& e) {
    throw DeviceError(concat("from_dlpack, with a byte_offset of ", t.byte_offset, ": ", e.message()), where);
  }
}

bool read_only(Exchanged x) {
  return x.versioned && (static_cast<const dlpack::ManagedTensorVersioned*>(x.managed)->flags & dlpack::kReadOnly) != 0;
}

const dlpack::Tensor& tensor_of(Exchanged x, bool shared, SourceLocation where) {
  if (!x.managed)
    throw BorrowError(
        "from_dlpack got a null pointer.\n  Was the tensor taken over already? Each export makes one tensor.", where);
  if (!x.versioned) return static_cast<const dlpack::ManagedTensor*>(x.managed)->dl_tensor;
  const auto& m = *static_cast<const dlpack::ManagedTensorVersioned*>(x.managed);
  if (m.version.major != dlpack::kVersion.major) {
    throw ShapeError(concat("from_dlpack: the tensor is of DLPack ", m.version.major, ".", m.version.minor,
                            "; expected major version ", dlpack::kVersion.major,
                            ", whose layout is known.\n  Ask its producer for that version (max_version in Python)."),
                     where);
  }
  if (!shared && read_only(x)) {
    throw BorrowError(
        "from_dlpack: the tensor is marked read-only, and a Tensor may be written.\n  Take it with shared_from_dlpack, "
        "or copy that: clone(shared_from_dlpack<T, R>(p)).",
        where);
  }
  return m.dl_tensor;
}

}  // namespace

runtime::StorageRef import_dlpack(Exchanged x, ElementType element, std::span<std::int64_t> dims,
                                  std::span<std::int64_t> strides, std::shared_ptr<char>* owners,
                                  const Stream* producer, SourceLocation where) {
  const dlpack::Tensor& t = tensor_of(x, owners != nullptr, where);
  check_type(t, element, dims.size(), where);
  std::copy_n(t.shape, dims.size(), dims.begin());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      throw ShapeError(concat("from_dlpack: shape[", i, "] is ", dims[i],
                              ": an extent is not negative.\n  The producer has to correct it."),
                       where);
    if (dims[i] > kMaxExtent)
      throw ShapeError(concat("from_dlpack: shape[", i, "] is ", dims[i], ", which is too large: an axis holds ",
                              kMaxExtent, ".\n  Spread the data over more axes."),
                       where);
  }
  const bool none = element_count(dims, where) == 0;
  set_contiguous(dims, strides);
  for (std::size_t i = 0; !none && t.strides && i < dims.size(); ++i) {
    if (dims[i] != 1)
      strides[i] = t.strides[i];  // the stride of an axis with one element has no meaning and may have any value
  }
  const Device device = device_of(t.device, where);
  std::byte* const first = none ? nullptr : first_element(t, where);
  const std::size_t bytes = check_borrowed("from_dlpack", first, dims, strides, element, where);
  if (!none) check_range(t, first, bytes, device, where);
  std::atomic<bool>* const own = x.versioned ? taken_back<dlpack::ManagedTensorVersioned>(x.managed)
                                             : taken_back<dlpack::ManagedTensor>(x.managed);
  if (own != nullptr && own->load())
    throw BorrowError(
        "from_dlpack: a tensor has been made of this export already; expected one that is still the caller's.\n  Take "
        "each export once (the tensor owns it from then on), or export again with to_dlpack.",
        where);
  auto guard = std::make_shared<Guard>(x);
  Guard& held = *guard;
  if (own == nullptr) {
    held.taken = TakenStructures::all().take(x.managed);
    if (!held.taken)
      throw BorrowError(
          "from_dlpack: a tensor has been made of this structure already; expected one that is still the caller's.\n  "
          "Take each structure once: the tensor owns it from then on.",
          where);
  }
  if (owners && read_only(x)) held.owners = *owners;
  runtime::StorageRef storage = adopt(device, first, bytes, std::move(guard), where, own == nullptr);
  if (producer != nullptr) record_write_of(*storage, *producer, where);
  if (own != nullptr && own->exchange(true))  // another thread came first
    throw BorrowError("from_dlpack: another thread has made a tensor of this export. Take each export once.", where);
  held.armed = true;
  return storage;
}

// ---- to -------------------------------------------------------------------------------------------------------------

namespace {

dlpack::DeviceId device_id(Device device, SourceLocation where) {
  if (device.kind() == DeviceKind::Cpu) return {dlpack::kCpu, 0};
  if (device.kind() == DeviceKind::Cuda) return {dlpack::kCuda, device.ordinal()};
  throw DeviceError(concat("to_dlpack: DLPack has no name for the device ", device.name(), "."), where);
}

template <class M>
M* make_export(const LayoutRef& l, bool read_only, std::shared_ptr<char> owners, const Stream* consumer,
               SourceLocation where) {
  const dlpack::DeviceId device = device_id((*l.storage)->device(), where);
  auto x = std::make_unique<Export<M>>();
  if (consumer != nullptr) order_stream(*consumer, l, !read_only, where);
  const runtime::Holder holder{.what = "to_dlpack", .where = where};
  x->storage = *l.storage;
  x->lease.take(*x->storage, !read_only, holder);
  x->storage->publish_address(where);
  if (consumer == nullptr) {
    runtime::at_line(where, [&] {
      (*l.storage)->wait_written();
      if (!read_only) (*l.storage)->wait_unused();
    });
  }
  x->owners = std::move(owners);
  std::copy(l.dims.begin(), l.dims.end(), x->dims.begin());
  std::copy(l.strides.begin(), l.strides.end(), x->strides.begin());
  dlpack::Tensor& t = x->managed.dl_tensor;
  t.data = l.size() == 0 ? nullptr : l.data();
  t.device = device;
  t.ndim = l.rank();
  t.dtype = data_type(l.element);
  t.shape = x->dims.data();
  t.strides = x->strides.data();
  x->managed.manager_ctx = x.get();
  x->managed.deleter = Export<M>::end;
  return &x.release()->managed;
}

}  // namespace

void* export_dlpack(const LayoutRef& l, bool versioned, bool read_only, std::shared_ptr<char> owners,
                    const Stream* consumer, SourceLocation where) {
  if (!versioned) return make_export<dlpack::ManagedTensor>(l, read_only, std::move(owners), consumer, where);
  auto* m = make_export<dlpack::ManagedTensorVersioned>(l, read_only, std::move(owners), consumer, where);
  m->version = dlpack::kVersion;
  m->flags = read_only ? dlpack::kReadOnly : 0;
  return m;
}

}  // namespace tessera::detail
