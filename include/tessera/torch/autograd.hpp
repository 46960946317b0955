// Derivatives. The stable ABI has no way to make a node of PyTorch's graph of derivatives, so that part is registered
// with torch.library.register_autograd by a few lines of Python, which run in the interpreter of the process when the
// library is loaded. The derivative itself is an operator like any other.
#pragma once
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/torch/operator.hpp"

namespace tessera::pytorch {

/// Runs a program in the Python interpreter of the process, under its lock; does nothing where there is none. The
/// interpreter is found by name: this library works with every Python, and without. Throws DeviceError if the program
/// fails (Python has printed why).
inline void run_python(const std::string& program) {
  const auto find = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  const auto initialized = reinterpret_cast<int (*)()>(find("Py_IsInitialized"));
  if (initialized == nullptr || initialized() == 0) return;
  const auto ensure = reinterpret_cast<int (*)()>(find("PyGILState_Ensure"));
  const auto release = reinterpret_cast<void (*)(int)>(find("PyGILState_Release"));
  const auto run = reinterpret_cast<int (*)(const char*, void*)>(find("PyRun_SimpleStringFlags"));
  if (ensure == nullptr || release == nullptr || run == nullptr)
    throw DeviceError("the Python of this process does not export PyGILState_Ensure and PyRun_SimpleStringFlags");
  const int state = ensure();
  const int failed = run(program.c_str(), nullptr);
  release(state);
  if (failed != 0) throw DeviceError("registering derivatives with PyTorch failed; Python's message is above");
}

/// A value of the forward that the backward takes: argument or result `place`.
struct Kept {
  bool is_result = false;
  std::size_t place = 0;
  bool is_tensor = true;  ///< else a number
};

/// What the program of a derivative says.
struct Derivative {
  std::string space, name, backward;        ///< of the operators, without "::"
  std::size_t arguments = 0, results = 0;   ///< of the forward
  std::vector<std::size_t> with_gradient;   ///< the results whose gradients the backward takes
  std::vector<std::size_t> differentiable;  ///< the arguments whose gradients it makes
  std::vector<Kept> kept;                   ///< in the order in which it takes them
};

/// "name0, name1, " for `count` names.
inline std::string numbered(const char* name, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += concat(name, i, ", ");
  return text;
}

/// The lines of a Python function that keep what `d` names. Tensors and numbers are known here, so that nothing is left
/// to find out in a call.
inline std::string keeping_lines(const Derivative& d) {
  std::string tensors, numbers;
  for (const Kept& k : d.kept) {
    const std::string value = !k.is_result     ? concat("inputs[", k.place, "]")
                              : d.results == 1 ? std::string("output")
                                               : concat("output[", k.place, "]");
    (k.is_tensor ? tensors : numbers) += value + ", ";
  }
  if (!numbers.empty()) numbers = concat("        ctx.tessera_numbers = (", numbers, ")\n");
  return concat("        ctx.save_for_backward(", tensors, ")\n", numbers);
}

/// Those that call the backward operator and return a gradient, or None, for each argument.
inline std::string backward_lines(const Derivative& d) {
  std::size_t tensors = 0, numbers = 0;
  std::string operands, gradients;
  for (const std::size_t i : d.with_gradient) operands += concat("g", i, ", ");
  for (const Kept& k : d.kept) operands += k.is_tensor ? concat("t", tensors++, ", ") : concat("n", numbers++, ", ");
  for (std::size_t i = 0, made = 0; i < d.arguments; ++i) {
    const bool has_one = made < d.differentiable.size() && d.differentiable[made] == i;
    gradients += !has_one                       ? std::string("None, ")
                 : d.differentiable.size() == 1 ? std::string("made, ")
                                                : concat("made[", made, "], ");
    made += has_one ? 1 : 0;
  }
  std::string text;
  if (tensors > 0) text += concat("        ", numbered("t", tensors), "= ctx.saved_tensors\n");
  if (numbers > 0) text += concat("        ", numbered("n", numbers), "= ctx.tessera_numbers\n");
  return concat(text, "        made = backward_operator(", operands, ")\n        return (", gradients, ")\n");
}

/// The program for run_python(), written for this operator: it runs at each call.
inline std::string autograd_program(const Derivative& d) {
  return concat("def _tessera_register():\n    import torch\n    backward_operator = getattr(torch.ops.", d.space,
                ", '", d.backward, "').default\n\n    def setup_context(ctx, inputs, output):\n", keeping_lines(d),
                "\n    def backward(ctx, ", numbered("g", d.results), "):\n", backward_lines(d),
                "\n    torch.library.register_autograd('", d.space, "::", d.name,
                "', backward, setup_context=setup_context)\n\n_tessera_register()\ndel _tessera_register\n");
}

/// The tensors of floating-point elements among `all`.
template <std::size_t N>
std::vector<std::size_t> floating(const std::array<Parameter, N>& all) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < N; ++i)
    if (all[i].is_tensor() && tessera::info(all[i].element).cls == ElementClass::Float) places.push_back(i);
  return places;
}

}  // namespace tessera::pytorch
