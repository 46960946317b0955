// What check.py compares the operators of examples/torch_op with: operators of the same form that do nothing, written
// by hand for PyTorch's stable ABI. What they cost is PyTorch's dispatcher, the handles of their arguments, and the
// result's memory.
#include <tessera/torch.hpp>

namespace {

using namespace tessera::pytorch;

/// (Tensor(a!) y, float a) -> ()
void nothing(StableIValue* stack, std::uint64_t, std::uint64_t) { const Handle y(unboxed<AtenTensorHandle>(stack[0])); }

/// A tensor like `x`, not initialised.
StableIValue fresh_like(const Handle& x) {
  std::int64_t rank = 0, *dims = nullptr, *strides = nullptr;
  std::int32_t dtype = 0, device_type = 0, device_index = 0;
  check(aoti_torch_get_dim(x.get(), &rank), "aoti_torch_get_dim");
  check(aoti_torch_get_sizes(x.get(), &dims), "aoti_torch_get_sizes");
  check(aoti_torch_get_strides(x.get(), &strides), "aoti_torch_get_strides");
  check(aoti_torch_get_dtype(x.get(), &dtype), "aoti_torch_get_dtype");
  check(aoti_torch_get_device_type(x.get(), &device_type), "aoti_torch_get_device_type");
  check(aoti_torch_get_device_index(x.get(), &device_index), "aoti_torch_get_device_index");
  AtenTensorHandle made = nullptr;
  check(aoti_torch_empty_strided(rank, dims, strides, dtype, device_type, device_index, &made),
        "aoti_torch_empty_strided");
  return boxed(made);
}

/// (Tensor x) -> Tensor
void fresh(StableIValue* stack, std::uint64_t, std::uint64_t) {
  const Handle x(unboxed<AtenTensorHandle>(stack[0]));
  stack[0] = fresh_like(x);
}
/// (Tensor dy, Tensor y) -> Tensor
void fresh_backward(StableIValue* stack, std::uint64_t, std::uint64_t) {
  const Handle dy(unboxed<AtenTensorHandle>(stack[0])), y(unboxed<AtenTensorHandle>(stack[1]));
  stack[0] = fresh_like(y);
}

const bool registered = [] {
  TorchLibraryHandle library = nullptr;
  check(aoti_torch_library_init_fragment("tessera_bench", __FILE__, __LINE__, &library),
        "aoti_torch_library_init_fragment");
  check(aoti_torch_library_def(library, "nothing_(Tensor(a!) y, float a) -> ()"), "aoti_torch_library_def");
  check(aoti_torch_library_def(library, "fresh(Tensor x) -> Tensor"), "aoti_torch_library_def");
  check(aoti_torch_library_def(library, "fresh_backward(Tensor dy, Tensor y) -> Tensor"), "aoti_torch_library_def");
  for (const char* key : {"CPU", "CUDA"}) {
    TorchLibraryHandle functions = nullptr;
    check(aoti_torch_library_init_impl("tessera_bench", key, __FILE__, __LINE__, &functions),
          "aoti_torch_library_init_impl");
    check(torch_library_impl(functions, "nothing_", nothing, TORCH_ABI_VERSION), "torch_library_impl");
    check(torch_library_impl(functions, "fresh", fresh, TORCH_ABI_VERSION), "torch_library_impl");
    check(torch_library_impl(functions, "fresh_backward", fresh_backward, TORCH_ABI_VERSION), "torch_library_impl");
  }
  return true;
}();

}  // namespace
