// The functions of the Python package as operators of PyTorch: torch.ops.tessera.<name>, for every row of the tables of
// libtessera_python.so, which lies in the folder of this library and computes them. This library has PyTorch's side
// alone: schemas, fake kernels, arguments and results, through the stable ABI. Derivatives are registered by
// tessera/torch.py.
#include <dlfcn.h>

#include <array>
#include <utility>
#include <vector>

#include "../src/guest_calls.hpp"
#include "tessera/torch/argument.hpp"
#include "tessera/torch/fake.hpp"

namespace tessera::python {

namespace {

namespace pt = tessera::pytorch;
using pt::Handle;

constexpr std::size_t kMaxTensors = 6, kMaxNumbers = 4, kMaxFunctions = 128;

/// The tables of the other library. Throws DeviceError if it is not there.
const GuestTable& table() {
  static const GuestTable& found = *[] {
    Dl_info self{};
    dladdr(reinterpret_cast<const void*>(&table), &self);
    const std::string path = self.dli_fname;
    const std::string other = path.substr(0, path.rfind('/') + 1) + "libtessera_python.so";
    void* const library = dlopen(other.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const function = library == nullptr ? nullptr : dlsym(library, kGuestTable);
    if (function == nullptr) throw DeviceError(concat(path, " needs the library beside it, ", other, ": ", dlerror()));
    return reinterpret_cast<const GuestTable* (*)()>(function)();
  }();
  return found;
}

int count_of_numbers(const Function& f) { return entries(f.numbers); }
bool is_optional(const Function& f, int i) { return i >= f.least_tensors; }

/// "rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor"
std::string schema(const Function& f) {
  std::string text = concat(f.name, "(");
  for (int i = 0; i < f.most_tensors; ++i)
    text += concat(i == 0 ? "" : ", ", is_optional(f, i) ? "Tensor? " : "Tensor ", parameter_name(f, i),
                   is_optional(f, i) ? "=None" : "");
  if (count_of_numbers(f) > 0) text += concat(", ", f.numbers);
  if (f.made.count == 1) return text + ") -> Tensor";
  for (int i = 0; i < f.made.count; ++i) text += i == 0 ? ") -> (Tensor" : ", Tensor";
  return text + ")";
}

double number_of(std::string_view declared, StableIValue bits) {
  if (declared.starts_with("float")) return pt::unboxed<double>(bits);
  if (declared.starts_with("bool")) return pt::unboxed<bool>(bits) ? 1 : 0;
  return static_cast<double>(pt::unboxed<std::int64_t>(bits));
}

std::string argument_text(const Function& f, int i) {
  return concat("tessera::", f.name, ": argument ", i, " (", parameter_name(f, i), ")");
}

/// Arguments of a call, taken over from PyTorch's stack.
struct Arguments {
  std::array<pt::Argument, kMaxTensors> tensors;
  std::array<double, kMaxNumbers> numbers{};
  int count = 0;  ///< of tensors; those that are left out come last

  Arguments(const Function& f, const StableIValue* stack) {
    for (int i = 0; i < f.most_tensors; ++i) {
      const StableIValue value = stack[i];
      if (!is_optional(f, i)) {
        tensors[static_cast<std::size_t>(count++)].handle = Handle(pt::unboxed<AtenTensorHandle>(value));
      } else if (value != 0) {  // an optional value is a pointer to it, which the callee deletes
        auto* const held = pt::unboxed<StableIValue*>(value);
        tensors[static_cast<std::size_t>(count++)].handle = Handle(pt::unboxed<AtenTensorHandle>(*held));
        delete held;
      }
    }
    for (int i = 0; i < count_of_numbers(f); ++i)
      numbers[static_cast<std::size_t>(i)] = number_of(entry(f.numbers, i), stack[f.most_tensors + i]);
  }
  pt::Argument& operator[](int i) { return tensors[static_cast<std::size_t>(i)]; }
};

/// The library's element type of a tensor. Throws ShapeError for one that the function does not take.
ElementType element_of(const Function& f, int i, std::int32_t dtype) {
  std::string allowed;
  for (const ElementType e : f.elements) {
    const pt::DType type = pt::dtype_of(e);
    if (type.code == dtype) return e;
    allowed += concat(allowed.empty() ? "" : ", ", type.name);
  }
  if (i != f.leading) {  // the function checks it
#define TESSERA_ELEMENT(name, ...) \
  if (pt::dtype_of(ElementType::name).code == dtype) return ElementType::name;
#include "tessera/base/element_types.def"
  }
  throw ShapeError(concat(argument_text(f, i), " has elements of ", pt::dtype_text(dtype), "; the operator takes ",
                          allowed, ".\n  Convert it with .to(dtype)."));
}

/// Element type and device of each tensor; all are on one device.
std::array<ElementType, kMaxTensors> read_kinds(const Function& f, Arguments& a) {
  std::array<ElementType, kMaxTensors> elements{};
  for (int i = 0; i < a.count; ++i) {
    pt::Argument& t = a[i];
    pt::check(aoti_torch_get_dtype(t.handle.get(), &t.dtype), "aoti_torch_get_dtype");
    pt::check(aoti_torch_get_device_type(t.handle.get(), &t.device_type), "aoti_torch_get_device_type");
    pt::check(aoti_torch_get_device_index(t.handle.get(), &t.device_index), "aoti_torch_get_device_index");
    if (t.device_type != a[0].device_type || t.device_index != a[0].device_index)
      throw DeviceError(concat(argument_text(f, i), " is on ", pt::device_text(t), ", an argument before it on ",
                               pt::device_text(a[0]), ".\n  Move all arguments to one device."));
    elements[static_cast<std::size_t>(i)] = element_of(f, i, t.dtype);
  }
  return elements;
}

/// A block is a tensor of bytes from PyTorch's allocator, for its current stream.
void* allocate(std::int32_t device, std::size_t bytes, void** block, const char** why) {
  static thread_local std::string text;
  try {
    const auto size = static_cast<std::int64_t>(bytes);
    const std::int64_t one = 1;
    AtenTensorHandle made = nullptr;
    pt::check(aoti_torch_empty_strided(
                  1, &size, &one, aoti_torch_dtype_uint8(),
                  device == kGuestCpu ? aoti_torch_device_type_cpu() : aoti_torch_device_type_cuda(), device, &made),
              "aoti_torch_empty_strided");
    auto owner = std::make_unique<Handle>(made);
    void* memory = nullptr;
    pt::check(torch_get_mutable_data_ptr(made, &memory), "torch_get_mutable_data_ptr");
    *block = owner.release();
    return memory;
  } catch (const std::exception& e) { text = e.what(); }
  *why = text.c_str();
  return nullptr;
}
constexpr GuestHost kHost{allocate, [](void* block) { delete static_cast<Handle*>(block); }};

void* current_stream(std::int32_t device) {
  void* native = nullptr;
  if (aoti_torch_get_current_cuda_stream == nullptr)
    throw DeviceError("this PyTorch has tensors of GPUs and no libtorch_cuda, where its streams are");
  pt::check(aoti_torch_get_current_cuda_stream(device, &native), "aoti_torch_get_current_cuda_stream");
  return native;
}

/// Tensors over the results' blocks, in order; what went wrong while one was made.
struct Taken {
  std::array<Handle, kMaxResults> made;
  std::size_t count = 0;
  std::string error;

  static void take(void* context, const GuestResult* r) {
    auto& self = *static_cast<Taken*>(context);
    AtenTensorHandle made = nullptr;
    const AOTITorchError result =
        aoti_torch__alloc_from_pool(static_cast<Handle*>(r->block)->get(), r->offset, pt::dtype_of(r->element).code,
                                    r->rank, r->dims.data(), r->strides.data(), &made);
    if (result != AOTI_TORCH_SUCCESS)
      self.error = "PyTorch's aoti_torch__alloc_from_pool failed; its message is above.";
    else if (self.count < self.made.size())
      self.made[self.count++] = Handle(made);
  }
};

/// A tensor as the tables' library reads it. One that repeats elements (expand) is copied.
GuestTensor guest(pt::Argument& a, ElementType element) {
  pt::read_sizes(a);
  if (pt::repeats(a)) {
    a.handle = pt::contiguous(a.handle);
    pt::read_sizes(a);
  }
  const void* data = nullptr;
  pt::check(torch_get_const_data_ptr(a.handle.get(), &data), "torch_get_const_data_ptr");
  return {data,
          pt::extent_in_bytes(a, element),
          a.dims.data(),
          a.strides.data(),
          static_cast<std::int32_t>(a.dims.size()),
          element};
}

/// For tensors of the CPU and of GPUs.
void run(const Function& f, StableIValue* stack) {
  Arguments a(f, stack);
  const auto elements = read_kinds(f, a);
  std::array<GuestTensor, kMaxTensors> tensors{};
  for (int i = 0; i < a.count; ++i)
    tensors[static_cast<std::size_t>(i)] = guest(a[i], elements[static_cast<std::size_t>(i)]);
  const bool cpu = a[0].device_type == aoti_torch_device_type_cpu();
  const std::int32_t device = cpu ? kGuestCpu : a[0].device_index;
  Taken taken;
  const GuestCall call{&f,
                       tensors.data(),
                       a.count,
                       a.numbers.data(),
                       count_of_numbers(f),
                       device,
                       cpu ? nullptr : current_stream(device),
                       &kHost,
                       Taken::take,
                       &taken};
  if (table().call(&call) != 0) throw std::runtime_error(table().error_text());
  if (!taken.error.empty()) throw DeviceError(taken.error);
  for (std::size_t i = 0; i < taken.count; ++i) stack[i] = pt::boxed(taken.made[i].release());
}

Handle without_last(const pt::Argument& a, bool keep) {
  return pt::call_aten("aten::any", "dim", a.handle.copy(), std::int64_t{-1}, keep);
}

void expect_matrix(const Function& f, Arguments& a, int i) {
  std::int64_t rank = 0;
  pt::check(aoti_torch_get_dim(a[i].handle.get(), &rank), "aoti_torch_get_dim");
  if (rank != 2)
    throw ShapeError(
        concat(argument_text(f, i), " has ", rank, rank == 1 ? " axis" : " axes", "; expected 2 axes.\n  Reshape it."));
}

/// A tensor with the extents of a result. Nothing reads a size, which may be a symbol.
Handle shaped(const Function& f, const Result& result, Arguments& a) {
  switch (result.extents) {
    case Extents::Same: break;
    case Extents::WithoutLast: return without_last(a[result.tensor], false);
    case Extents::Broadcast: {
      Handle all = a[0].handle.copy();
      for (int i = 1; i < a.count; ++i) all = pt::joined(std::move(all), a[i].handle.copy());
      return all;
    }
    case Extents::None: return pt::call_aten("aten::any", "", a[0].handle.copy());
    case Extents::Product:
      expect_matrix(f, a, 0), expect_matrix(f, a, 1);
      return pt::joined(pt::along(a[0].handle, 2, 0, 0, 2), pt::along(a[1].handle, 2, 1, 1, 2));
    case Extents::Linear:
      expect_matrix(f, a, 1);
      return pt::joined(without_last(a[0], true), without_last(a[1], false));
    case Extents::Transposed: expect_matrix(f, a, 0); return pt::call_aten("aten::t", "", a[0].handle.copy());
  }
  return a[result.tensor].handle.copy();
}

/// For fake and meta tensors: the results without elements.
void fake(const Function& f, StableIValue* stack) {
  Arguments a(f, stack);
  const ElementType leading = read_kinds(f, a)[static_cast<std::size_t>(f.leading)];
  std::array<Handle, kMaxResults> made;
  for (int i = 0; i < f.made.count; ++i)
    made[static_cast<std::size_t>(i)] = pt::empty_like(shaped(f, f.made[i], a), f.made[i].element(leading));
  for (int i = 0; i < f.made.count; ++i) stack[i] = pt::boxed(made[static_cast<std::size_t>(i)].release());
}

/// What PyTorch calls: without state, so that a function is a type with its number. Tessera's errors pass as
/// std::runtime_error, which becomes Python's RuntimeError.
template <void (*F)(const Function&, StableIValue*), std::size_t I>
void entry_point(StableIValue* stack, std::uint64_t, std::uint64_t) {
  std::string text;
  try {
    return F(table().functions[I], stack);
  } catch (const std::exception& e) { text = e.what(); }
  throw std::runtime_error(text);
}
using EntryPoint = void (*)(StableIValue*, std::uint64_t, std::uint64_t);
template <void (*F)(const Function&, StableIValue*), std::size_t... I>
constexpr std::array<EntryPoint, sizeof...(I)> entry_points(std::index_sequence<I...>) {
  return {entry_point<F, I>...};
}

bool register_all() {
  static constexpr auto kRun = entry_points<run>(std::make_index_sequence<kMaxFunctions>());
  static constexpr auto kFake = entry_points<fake>(std::make_index_sequence<kMaxFunctions>());
  TorchLibraryHandle definitions = nullptr;  // kept as long as the process, as those below
  pt::check(aoti_torch_library_init_fragment("tessera", __FILE__, __LINE__, &definitions),
            "aoti_torch_library_init_fragment");
  const auto count = static_cast<std::size_t>(table().count);
  if (count > kMaxFunctions) throw InternalError(concat("there are ", count, " functions, more than kMaxFunctions"));
  for (std::size_t i = 0; i < count; ++i)
    pt::check(aoti_torch_library_def(definitions, schema(table().functions[i]).c_str()), "aoti_torch_library_def");
  for (const char* key : {"CPU", "CUDA", "Meta"}) {
    TorchLibraryHandle functions = nullptr;
    pt::check(aoti_torch_library_init_impl("tessera", key, __FILE__, __LINE__, &functions),
              "aoti_torch_library_init_impl");
    const auto& all = std::string_view(key) == "Meta" ? kFake : kRun;
    for (std::size_t i = 0; i < count; ++i)
      pt::check(torch_library_impl(functions, table().functions[i].name, all[i], TORCH_ABI_VERSION),
                "torch_library_impl");
  }
  return true;
}
const bool registered = register_all();

}  // namespace

}  // namespace tessera::python
