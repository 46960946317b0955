// Misuse of functions that move elements: from and to host memory, copies, casts, files, foreign memory.
#include <filesystem>

#include "misuse/misuse.hpp"

namespace tessera {
namespace {

using misuse::Outcome;

MISUSE(HostTensor, "host") { c.result(host(c.in<f32, 2>({4, 6})).sync()); }
MISUSE(HostView, "host") { c.result(host(c.view<i8, 2>({4, 6})).sync()); }
MISUSE(HostShared, "host") { c.result(host(c.shared<bool, 2>({4, 6})).sync()); }
MISUSE(HostOp, "host") { c.result(host(c.op<u16, 2>({4, 6})).sync()); }
MISUSE(HostOn, "host") { c.result(host(c.in<f32, 1>({4})).on(c.stream())); }

MISUSE(CastTensor, "cast") { c.result(cast<i32>(c.in<f32, 2>({4, 6})).sync()); }
MISUSE(CastView, "cast") { c.result(cast<bf16>(c.view<f32, 2>({4, 6})).sync()); }
MISUSE(CastShared, "cast") { c.result(cast<f64>(c.shared<f16, 1>({6})).sync()); }
MISUSE(CastOp, "cast") { c.result(cast<f8e4m3>(c.op<f32, 2>({4, 6})).sync()); }
MISUSE(RoundedTensor, "rounded") { c.result(rounded<f32>(c.in<i64, 2>({10, 6})).sync()); }
MISUSE(RoundedView, "rounded") { c.result(rounded<f32>(c.view<i64, 3>({10, 4, 6})).sync()); }
MISUSE(RoundedOp, "rounded") { c.result(rounded<f32>(c.op<i64, 2>({10, 6})).sync()); }
MISUSE(CastOn, "cast") { c.result(cast<i32>(c.view<f32, 1>({4})).on(c.stream())); }

MISUSE(CloneTensor, "clone") { c.result(clone(c.in<f32, 2>({4, 6})).sync()); }
MISUSE(CloneView, "clone") { c.result(clone(c.view<i64, 2>({4, 6})).sync()); }
MISUSE(CloneShared, "clone") { c.result(clone(c.shared<f32, 2>({4, 6})).sync()); }
MISUSE(CloneOp, "clone") { c.result(clone(c.op<f32, 2>({4, 6})).sync()); }

MISUSE(CopyIntoLent, "copy_into") {
  auto& to = c.out<f32, 2>({4, 6});
  copy_into(mut(to), c.view<f32, 2>({4, 6})).sync();
  c.result(to);
}
MISUSE(CopyIntoLentOp, "copy_into") {
  auto& to = c.out<f32, 2>({4, 6});
  copy_into(mut(to), c.op<f32, 2>({4, 6})).sync();
  c.result(to);
}
MISUSE(CopyIntoLentTensor, "copy_into") {
  auto& to = c.out<f32, 2>({4, 6});
  copy_into(mut(to), c.in<f32, 2>({4, 6})).sync(c.stream());
  c.result(to);
}
MISUSE(CopyIntoGiven, "copy_into") {
  auto& to = c.out<f32, 2>({4, 6});
  const auto from = c.view<f32, 2>({4, 6});
  c.result(copy_into(std::move(to), from).sync());
}

// ---- files ---------------------------------------------------------------------------------------------------------

/// A path, or one that cannot be used.
std::string path(misuse::Call& c, const char* name) {
  const int chosen = c.other({{"a path of no folder", Outcome::Rejected},
                              {"the path of a folder", Outcome::Rejected},
                              {"an empty path", Outcome::Rejected}});
  if (chosen == 0) return misuse::path_of("no_folder") + "/x.npy";
  if (chosen == 1) return std::filesystem::temp_directory_path().string();
  return chosen == 2 ? "" : misuse::path_of(name);
}

MISUSE(SaveNpyTensor, "save_npy") {
  const std::string to = path(c, "saved.npy");
  save_npy(to, c.in<f32, 2>({4, 6}));
  c.result(load_npy<f32, 2>(to).sync());
  std::filesystem::remove(to);
}
MISUSE(SaveNpyView, "save_npy") {
  const std::string to = path(c, "saved.npy");
  save_npy(to, c.view<i16, 2>({4, 6}));
  c.result(load_npy<i16, 2>(to).sync());
  std::filesystem::remove(to);
}
MISUSE(SaveNpyOp, "save_npy") {
  const std::string to = path(c, "saved.npy");
  save_npy(to, c.op<f32, 2>({4, 6}));
  c.result(load_npy<f32, 2>(to).sync());
  std::filesystem::remove(to);
}
MISUSE(LoadNpy, "load_npy") {
  const std::string saved = misuse::path_of("loaded.npy");
  switch (c.other({{"another element type", Outcome::Rejected}, {"another rank", Outcome::Rejected}})) {
    case 0: save_npy(saved, ones<i32>({2, 3})); break;
    case 1: save_npy(saved, ones<f32>({6})); break;
    default: save_npy(saved, ones<f32>({2, 3})); break;
  }
  const std::string given = path(c, "loaded.npy");
  c.result(load_npy<f32, 2>(given).sync());
  std::filesystem::remove(saved);
}

// ---- text ----------------------------------------------------------------------------------------------------------

MISUSE(ToStringTensor, "to_string") { c.result(to_string(c.in<f32, 2>({4, 6}))); }
MISUSE(ToStringView, "to_string") { c.result(to_string(c.view<f32, 2>({4, 6}))); }
MISUSE(ToStringShared, "to_string") { c.result(to_string(c.shared<f32, 2>({4, 6}))); }
// What it writes is to_string's.
MISUSE(PrintTensor, "print") { print(c.in<f32, 2>({2, 3})), c.done(); }
MISUSE(PrintView, "print") { print(c.view<f32, 2>({2, 3})), c.done(); }
MISUSE(PrintShared, "print") { print(c.shared<f32, 2>({2, 3})), c.done(); }

// ---- memory of others ----------------------------------------------------------------------------------------------

alignas(16) f32 foreign[24];

MISUSE(Borrow, "borrow") {
  const int place =
      c.other({{"a null pointer", Outcome::Rejected}, {"a pointer that is not aligned", Outcome::Rejected}});
  auto* const bytes = reinterpret_cast<std::byte*>(foreign);
  f32* const at = place == 0 ? nullptr : place == 1 ? reinterpret_cast<f32*>(bytes + 2) : foreign;
  const int layout = c.other({{"strides of 0", Outcome::Rejected},
                              {"rows that overlap", Outcome::Rejected},
                              {"negative strides", Outcome::Rejected},
                              {"strides past 2^63", Outcome::Rejected}});
  const Extent strides[4] = {0, 5, -6, std::int64_t{1} << 62};
  const Extent row = layout < 0 ? Extent(6) : strides[layout];
  auto t = borrow<f32, 2>(at, {4, 6}, {row, 1}, nullptr);
  const int again = c.other({{"memory that is borrowed already", Outcome::Rejected}});
  if (again == 0) (void)borrow<f32, 1>(foreign + 3, {3}, {1}, nullptr);
  c.result(t.size());
}
MISUSE(BorrowExtents, "borrow") {
  const Extent rows = c.extent(1), columns = c.extent(6);
  // Extents larger than the memory are the caller's responsibility, so the result is not checked.
  c.result(borrow<f32, 2>(foreign, Dims<2>({rows, columns}, SourceLocation::current()), {24, 1}, nullptr).rank);
}

MISUSE(ToDlpackTensor, "to_dlpack") {
  auto p = to_dlpack(std::move(c.out<f32, 2>({4, 6})));
  c.result(from_dlpack<f32, 2>(std::move(p)));
}
MISUSE(ToDlpackView, "to_dlpack") {
  c.elements_apart(Outcome::Same);
  auto p = to_dlpack(c.view<f32, 2>({4, 6}));
  c.result(shared_from_dlpack<f32, 2>(std::move(p)));
}
MISUSE(ToDlpackShared, "to_dlpack") {
  auto p = to_dlpack(c.shared<f32, 2>({4, 6}));
  c.result(shared_from_dlpack<f32, 2>(std::move(p)));
}

/// A producer's tensor, changed as the call says; for reading or for both.
dlpack::ManagedTensorVersioned produced(misuse::Call& c, std::int64_t* shape, bool may_be_read_only) {
  dlpack::ManagedTensorVersioned m{};
  m.version = dlpack::kVersion;
  m.dl_tensor = {foreign, {dlpack::kCpu, 0}, 2, {dlpack::kFloat, 32, 1}, shape, nullptr, 0};
  dlpack::Tensor& t = m.dl_tensor;
  using enum Outcome;
  switch (c.other({{"another major version", Rejected},
                   {"elements of 16 bits", Rejected},
                   {"integers", Rejected},
                   {"two lanes", Rejected},
                   {"three axes", Rejected},
                   {"-1 axes", Rejected},
                   {"no shape", Rejected},
                   {"a negative extent", Rejected},
                   {"no data", Rejected},
                   {"an offset that is odd", Rejected},
                   {"a device of Vulkan", Rejected},
                   {"an extent of 2^31", Rejected},
                   {"read-only", may_be_read_only ? Same : Rejected}})) {
    case 0: m.version.major = 2; break;
    case 1: t.dtype.bits = 16; break;
    case 2: t.dtype.code = dlpack::kInt; break;
    case 3: t.dtype.lanes = 2; break;
    case 4: t.ndim = 3; break;
    case 5: t.ndim = -1; break;
    case 6: t.shape = nullptr; break;
    case 7: shape[0] = -4; break;
    case 8: t.data = nullptr; break;
    case 9: t.byte_offset = 1; break;
    case 10: t.device.device_type = 7; break;
    case 11: shape[1] = std::int64_t{1} << 31; break;
    case 12: m.flags = dlpack::kReadOnly; break;
    default: break;
  }
  return m;
}
MISUSE(FromDlpack, "from_dlpack") {
  std::int64_t shape[3] = {4, 6, 1};
  auto m = produced(c, shape, false);
  c.result(from_dlpack<f32, 2>(&m));
}
MISUSE(SharedFromDlpack, "shared_from_dlpack") {
  std::int64_t shape[3] = {4, 6, 1};
  auto m = produced(c, shape, true);
  c.result(shared_from_dlpack<f32, 2>(&m));
}
MISUSE(FromDlpackOfNobody, "from_dlpack") {
  std::int64_t shape[2] = {4, 6};
  auto m = produced(c, shape, false);
  const int chosen = c.other({{"a null pointer", Outcome::Rejected}});
  c.result(from_dlpack<f32, 2>(chosen == 0 ? nullptr : &m));
}

MISUSE(UnsafeAddress, "unsafe_::address") {
  c.looks_only();
  (void)unsafe_::address(c.in<f32, 1>({5}));
  c.done();
}

}  // namespace
}  // namespace tessera
