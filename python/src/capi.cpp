// What python/tessera/_library.py calls: plain C functions, so that no version of Python's own interface is used.
// A function that fails says so by its result, and the thread keeps the kind and the text of the error.
#include <dlfcn.h>

#include "call.hpp"
#include "exported.hpp"
#include "tessera/base/format.hpp"

namespace tessera::python {

LastError& last_error() {
  static thread_local LastError error;
  return error;
}

const char* kind_of(const Error& e) {
  if (dynamic_cast<const ElementError*>(&e) != nullptr) return "ElementError";
#define TESSERA_ERROR_CLASS(Name) \
  if (dynamic_cast<const Name*>(&e) != nullptr) return #Name;
#include "tessera/base/error_classes.def"
  return "InternalError";
}

namespace {

/// `native`: a CUstream as DLPack numbers streams (1: the legacy default one); the CPU has none.
Stream stream_of(Device device, void* native) {
  return device.kind() == DeviceKind::Cpu ? Stream::default_of(device)
                                          : Stream::wrap(native, device, nullptr, kNowhere);
}

void check_counts(const Function& f, std::size_t tensors, std::size_t numbers) {
  if (static_cast<int>(tensors) < f.least_tensors || static_cast<int>(tensors) > f.most_tensors ||
      static_cast<int>(numbers) != entries(f.numbers))
    throw InternalError(concat("python calls ", f.name, " with ", tensors, " tensors and ", numbers, " numbers"));
}

void call(const Function& f, std::span<const Lent> lent, std::span<const double> numbers, void* native,
          std::span<Array*> results) {
  std::vector<std::shared_ptr<void>> owners = owners_of(lent);
  check_counts(f, lent.size(), numbers.size());
  const Device device = device_of(lent[0], f, 0);
  const Stream stream = stream_of(device, native);
  std::vector<Region> tensors;
  for (std::size_t i = 0; i < lent.size(); ++i) {
    if (const Device other = device_of(lent[i], f, static_cast<int>(i)); !(other == device))
      throw DeviceError(concat(f.name, ": argument ", i + 1, " (", parameter_name(f, static_cast<int>(i)), ") is on ",
                               other.name(), ", argument 1 on ", device.name(), ".\n  Move all to one device."),
                        kNowhere);
    tensors.push_back(borrowed(lent[i], std::move(owners[i]), f, static_cast<int>(i), stream));
  }
  Call c(f, std::move(tensors), numbers, stream);
  f.run(c);
  if (c.results().size() > results.size()) throw InternalError(concat(f.name, " has too many results"));
  for (std::size_t i = 0; i < c.results().size(); ++i) results[i] = c.results()[i].release();
}

}  // namespace

}  // namespace tessera::python

namespace py = tessera::python;

TESSERA_PYTHON const char* tessera_py_error_kind() { return py::last_error().kind; }
TESSERA_PYTHON const char* tessera_py_error_text() { return py::last_error().text.c_str(); }

TESSERA_PYTHON int tessera_py_function_count() { return static_cast<int>(py::all_functions().size()); }
TESSERA_PYTHON const char* tessera_py_function_name(int i) {
  return py::all_functions()[static_cast<std::size_t>(i)].name;
}

/// The most results of a function.
TESSERA_PYTHON int tessera_py_most_results() { return py::kMaxResults; }

/// Calls function number `function`. The tensors are taken over in any case. `results` has room for
/// tessera_py_most_results() arrays, which tessera_py_array_free() ends; those that the function does not make stay as
/// they are. Returns 0, or 1 after an error.
TESSERA_PYTHON int tessera_py_call(int function, const py::Lent* tensors, int tensor_count, const double* numbers,
                                   int number_count, void* stream, py::Array** results) {
  return py::guarded([&] {
    py::call(py::all_functions()[static_cast<std::size_t>(function)], {tensors, static_cast<std::size_t>(tensor_count)},
             {numbers, static_cast<std::size_t>(number_count)}, stream, {results, py::kMaxResults});
  })
             ? 0
             : 1;
}

TESSERA_PYTHON void tessera_py_array_free(py::Array* array) { delete array; }

/// The extents (room for 8) and DLPack's device and element type of an array. Returns the number of axes.
TESSERA_PYTHON int tessera_py_array_describe(const py::Array* array, std::int64_t* shape,
                                             tessera::dlpack::DeviceId* device, const char** element) {
  const py::Region& r = array->region;
  const tessera::Device where = tessera::detail::device_of(r.storage);
  const bool cpu = where.kind() == tessera::DeviceKind::Cpu;
  *device = {cpu ? tessera::dlpack::kCpu : tessera::dlpack::kCuda, cpu ? 0 : where.ordinal()};
  *element = tessera::info(r.element).name;
  std::copy_n(r.dims.begin(), r.rank, shape);
  return r.rank;
}

/// The structure of DLPack that lends the array, with `ordered` for work that follows on `stream`; null after an error.
TESSERA_PYTHON void* tessera_py_array_lend(const py::Array* array, int versioned, int ordered, void* stream) {
  void* made = nullptr;
  py::guarded([&] {
    const tessera::Device device = tessera::detail::device_of(array->region.storage);
    if (ordered != 0 && device.kind() != tessera::DeviceKind::Cpu) {
      const tessera::Stream consumer = py::stream_of(device, stream);
      made = py::lend(*array, versioned != 0, &consumer);
    } else {
      made = py::lend(*array, versioned != 0, nullptr);
    }
  });
  return made;
}

/// The destructor of a capsule with a structure that no library took. Two functions of Python's stable interface are
/// looked up in the process, which is one of Python when this runs.
TESSERA_PYTHON void tessera_py_capsule_end(void* capsule) {
  using IsValid = int (*)(void*, const char*);
  using GetPointer = void* (*)(void*, const char*);
  static const auto is_valid = reinterpret_cast<IsValid>(dlsym(RTLD_DEFAULT, "PyCapsule_IsValid"));
  static const auto get_pointer = reinterpret_cast<GetPointer>(dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer"));
  if (is_valid == nullptr || get_pointer == nullptr) return;
  const tessera::dlpack::Release release;
  if (is_valid(capsule, "dltensor") != 0)
    release(static_cast<tessera::dlpack::ManagedTensor*>(get_pointer(capsule, "dltensor")));
  else if (is_valid(capsule, "dltensor_versioned") != 0)
    release(static_cast<tessera::dlpack::ManagedTensorVersioned*>(get_pointer(capsule, "dltensor_versioned")));
}
