// Tensors from and to Python by DLPack, without copies. What is read may be read by several calls at a time, and may be
// memory of the library that another library got from it, so nothing is claimed (from_dlpack() is for owners).
#include "call.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::python {

namespace {

/// Returns a structure to its producer.
struct Owner {
  Lent lent;
  explicit Owner(Lent l) : lent(l) {}
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (lent.versioned)
      dlpack::Release()(static_cast<dlpack::ManagedTensorVersioned*>(lent.managed));
    else
      dlpack::Release()(static_cast<dlpack::ManagedTensor*>(lent.managed));
  }
};

const dlpack::Tensor& tensor_of(const Lent& l) {
  if (l.versioned) return static_cast<const dlpack::ManagedTensorVersioned*>(l.managed)->dl_tensor;
  return static_cast<const dlpack::ManagedTensor*>(l.managed)->dl_tensor;
}

std::string argument_text(const Function& f, int i) {
  return concat(f.name, ": argument ", i + 1, " (", parameter_name(f, i), ")");
}

constexpr ElementType kElements[] = {
#define TESSERA_ELEMENT(name, ...) ElementType::name,
#include "tessera/base/element_types.def"
};

ElementType element_of(const dlpack::Tensor& t, const Function& f, int i) {
  for (const ElementType e : kElements) {
    if (e == ElementType::tf32 || t.dtype != dlpack_type(e)) continue;
    if (i == f.leading && std::find(f.elements.begin(), f.elements.end(), e) == f.elements.end()) {
      throw ElementError(concat(argument_text(f, i), " has elements of ", info(e).name, "; expected ",
                                names_of(f.elements), ".\n  Convert it."),
                         kNowhere);
    }
    return e;
  }
  throw ElementError(concat(argument_text(f, i), " has elements of ", int{t.dtype.bits},
                            " bits and DLPack's type code ", int{t.dtype.code},
                            ", which the library does not have; expected ", names_of(f.elements), ".\n  Convert it."),
                     kNowhere);
}

/// A lent array: keeps its storage until the consumer has returned it and the device has done what was enqueued before.
template <class M>
struct Loan final : runtime::HandedBack {
  M managed{};
  runtime::StorageRef storage;
  std::array<std::int64_t, detail::kMaxRank> dims{}, strides{};
  void end_lease() noexcept override {}
  static void end(M* managed) {
    auto* self = static_cast<Loan*>(managed->manager_ctx);
    self->storage->device().backend().end_when_idle(self);
  }
};

template <class M>
M* make_loan(const Array& array) {
  const Region& r = array.region;
  auto loan = std::make_unique<Loan<M>>();
  loan->storage = r.storage;
  loan->dims = r.dims;
  loan->strides = r.strides;
  const detail::LayoutRef l{&r.storage, array.offset, r.shape(), r.steps(), r.element};
  const bool cpu = r.storage->device().kind() == DeviceKind::Cpu;
  dlpack::Tensor& t = loan->managed.dl_tensor;
  t.data = l.size() == 0 ? nullptr : l.data();
  t.device = {cpu ? dlpack::kCpu : dlpack::kCuda, cpu ? 0 : r.storage->device().ordinal()};
  t.ndim = r.rank;
  t.dtype = dlpack_type(r.element);
  t.shape = loan->dims.data();
  t.strides = loan->strides.data();
  loan->managed.manager_ctx = loan.get();
  loan->managed.deleter = Loan<M>::end;
  return &loan.release()->managed;
}

}  // namespace

dlpack::DataType dlpack_type(ElementType e) {
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

std::vector<std::shared_ptr<void>> owners_of(std::span<const Lent> lent) {
  std::vector<std::shared_ptr<void>> owners;
  owners.reserve(lent.size());
  for (const Lent& l : lent) owners.push_back(std::make_shared<Owner>(l));
  return owners;
}

Device device_of(const Lent& lent, const Function& f, int i) {
  const dlpack::DeviceId d = tensor_of(lent).device;
  switch (d.device_type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost: return Device::cpu();
    case dlpack::kCuda: return Device::cuda(d.device_id, kNowhere);
    default: break;
  }
  throw DeviceError(concat(argument_text(f, i), " is on a device of DLPack's type ", d.device_type,
                           "; expected 1 (CPU), 2 (CUDA) or 3 (pinned host memory).\n  Copy it there first."),
                    kNowhere);
}

Region borrowed(const Lent& lent, std::shared_ptr<void> owner, const Function& f, int i, const Stream& stream) {
  if (lent.versioned) {
    const dlpack::Version v = static_cast<const dlpack::ManagedTensorVersioned*>(lent.managed)->version;
    if (v.major != dlpack::kVersion.major)
      throw ShapeError(concat(argument_text(f, i), " is lent by DLPack ", v.major, ".", v.minor,
                              "; expected major version ", dlpack::kVersion.major, "."),
                       kNowhere);
  }
  const dlpack::Tensor& t = tensor_of(lent);
  const std::string what = argument_text(f, i);
  Region r;
  r.element = element_of(t, f, i);
  if (t.ndim < 0 || t.ndim > detail::kMaxRank)
    throw ShapeError(concat(what, " has ", t.ndim, " axes; the library takes up to ", detail::kMaxRank, "."), kNowhere);
  r.rank = t.ndim;
  std::copy_n(t.shape, r.rank, r.dims.begin());
  detail::check_extents(r.shape(), kNowhere);
  detail::set_contiguous(r.shape(), {r.strides.data(), static_cast<std::size_t>(r.rank)});
  const bool none = detail::element_count(r.shape(), kNowhere) == 0;
  for (std::size_t a = 0; !none && t.strides != nullptr && a < static_cast<std::size_t>(r.rank); ++a)
    if (r.dims[a] != 1) r.strides[a] = t.strides[a];  // of an axis with one element the stride means nothing
  std::byte* const first = none ? nullptr : static_cast<std::byte*>(t.data) + t.byte_offset;
  const std::size_t bytes = detail::check_borrowed(what.c_str(), first, r.shape(), r.steps(), r.element, kNowhere);
  r.storage = detail::adopt(stream.device(), first, bytes, std::move(owner), kNowhere, false);
  if (stream.device().kind() != DeviceKind::Cpu) detail::record_write_of(*r.storage, stream, kNowhere);
  return r;
}

void* lend(const Array& array, bool versioned, const Stream* consumer) {
  const Region& r = array.region;
  if (consumer != nullptr)
    detail::order_stream(*consumer, {&r.storage, array.offset, r.shape(), r.steps(), r.element}, false, kNowhere);
  if (!versioned) return make_loan<dlpack::ManagedTensor>(array);
  auto* made = make_loan<dlpack::ManagedTensorVersioned>(array);
  made->version = dlpack::kVersion;
  made->flags = 0;
  return made;
}

}  // namespace tessera::python
